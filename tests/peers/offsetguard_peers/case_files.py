"""Case files, read once in a process and by the parser in C, which is ten times quicker."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read_cases(file: Path) -> Any:
    """Return what a YAML file holds; everybody gets the same, so leave it as it is."""
    return yaml.load(file.read_text(encoding="utf-8"), _LOADER)  # noqa: S506 both loaders are safe ones
