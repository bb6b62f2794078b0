"""Steps of a job: each is announced when it begins, and its seconds are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """What a job says while it works: `say` gets one line at a time."""

    say: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = ""

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[None]:
        """Announce a step, and keep how long it took, in seconds."""
        self.current = name
        self.say(f"{name}: {what}")
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 2)
