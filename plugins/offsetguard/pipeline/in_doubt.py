"""One message at a time may be in doubt: handed over, and not yet logged as accepted.

Lanes are served side by side, so a crash could catch each of them there, and each would send its message once more.
Where a receiver cannot be asked what it has (mail, webhooks), lanes take turns for this short stretch: a crash then
costs one repeat. A receiver that keeps its answer back loses its turn after a moment, since nobody shall wait for
somebody else's receiver; only then can a crash cost one repeat more.
"""

from __future__ import annotations

import threading
import time

TURN_S = 2.0  # servers answer in a fraction of it


class InDoubt:
    """The turn of one lane at a time; used by several threads at once."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        """Let a lane keep its turn for `turn_s` seconds when others wait."""
        self._turn_s = turn_s
        self._changed = threading.Condition()
        self._holder: int | None = None
        self._ends_at = 0.0

    def enter(self) -> None:
        """Wait until no other lane is in doubt, or has been so for too long; returns soon in any case."""
        with self._changed:
            while self._holder is not None and (left_s := self._ends_at - time.monotonic()) > 0:
                self._changed.wait(left_s)
            self._holder = threading.get_ident()
            self._ends_at = time.monotonic() + self._turn_s

    def leave(self) -> None:
        """End the turn of this thread, if it still has it."""
        with self._changed:
            if self._holder == threading.get_ident():
                self._holder = None
                self._changed.notify()
