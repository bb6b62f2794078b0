"""Which keys a section of the file may have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from offsetguard.model.constraints import NO_OTHER_FIELDS

KEYS_THAT_PYTHON_RESERVES = {"from_": "from"}


def key_of(name: str) -> str:
    """Return a field's key in the file."""
    return KEYS_THAT_PYTHON_RESERVES.get(name, name)


KEYS_AS_IN_THE_FILE = {**NO_OTHER_FIELDS, "alias_generator": key_of}  # `__pydantic_config__` of such a section


def field_names(section: type[Any]) -> tuple[str, ...]:
    """Return the keys that a section of the file may have."""
    return tuple(key_of(one.name) for one in fields(section))
