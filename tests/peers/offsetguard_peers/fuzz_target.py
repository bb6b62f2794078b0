"""One reader of bytes from outside, as `fuzz` attacks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.sources.rocketmq.json_fields import MalformedBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads bytes; `refusals` are what it may raise, everything else is a finding."""

    name: str
    read: Callable[[bytes], object]
    originals: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = (MalformedBytes,)
    weight: int = 10  # share of the inputs
