"""What the fuzzer attacks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offsetguard.sources.rocketmq.json_fields import MalformedBytes


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads bytes; `refusals` are what it may raise, everything else is a finding."""

    name: str
    read: Callable[[bytes], object]
    originals: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = (MalformedBytes,)
    weight: float = 10  # share of the inputs; of what takes long, a small one
