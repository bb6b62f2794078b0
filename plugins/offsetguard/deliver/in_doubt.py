"""One message at a time may be in doubt: handed over, and not yet logged as accepted.

Lanes are served side by side, so a crash could catch each of them there, and each would send its message once more.
Where a receiver cannot be asked what it has (mail, webhooks), lanes take turns for this short stretch: a crash then
costs one repeat. But nobody shall wait for somebody else's receiver: one that keeps its answer back loses its turn
after a moment, and for the rest of the sweep its kind of channel takes turns with itself alone, and short ones. So
dead webhooks hold mail up once, for one turn. Only then can a crash cost a repeat for each that keeps its answer back.
"""

from __future__ import annotations

import threading
import time

from offsetguard.model.notification import Channel

SLOT_S = 2.0  # servers answer in a fraction of it
SHORT_SLOT_S = 0.2  # of a kind of channel of which one has kept its answer back
LONGEST_WAIT_S = 20.0  # with what a message may take, shorter than its claim


class InDoubt:
    """Whose turn it is; used by several threads at once."""

    def __init__(
        self, slot_s: float = SLOT_S, short_slot_s: float = SHORT_SLOT_S, longest_wait_s: float = LONGEST_WAIT_S
    ) -> None:
        """Let a message keep its turn for `slot_s` seconds when others wait, and none wait for `longest_wait_s`."""
        self._slot_s = slot_s
        self._short_slot_s = short_slot_s
        self._longest_wait_s = longest_wait_s
        self._changed = threading.Condition()
        self._holders: dict[Slot, float] = {}  # until when each may have its turn (monotonic)
        self._slow: set[Channel] = set()

    def slot(self, channel: Channel) -> Slot:
        """Return the turn of one message, to be entered and left; any thread may do either."""
        return Slot(self, channel)

    def enter(self, slot: Slot) -> None:
        """Wait until nobody who concerns it is in doubt, or has been so for too long."""
        give_up_at = time.monotonic() + self._longest_wait_s
        with self._changed:
            while (ends_at := self._in_the_way_until(slot)) is not None:
                left_s = min(ends_at, give_up_at) - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            if not slot.over:
                lasts_s = self._short_slot_s if slot.channel in self._slow else self._slot_s
                self._holders[slot] = time.monotonic() + lasts_s

    def leave(self, slot: Slot) -> None:
        """End a turn, if it still is one; it cannot be entered any more."""
        with self._changed:
            slot.over = True
            self._holders.pop(slot, None)
            self._changed.notify_all()

    def _in_the_way_until(self, slot: Slot) -> float | None:
        """Return when somebody who is in doubt will lose the turn; who stayed too long loses it here."""
        now = time.monotonic()
        for late in [one for one, ends_at in self._holders.items() if ends_at <= now]:
            del self._holders[late]
            self._slow.add(late.channel)
        concerned = (ends_at for one, ends_at in self._holders.items() if self._concerns(one.channel, slot.channel))
        return None if slot.over else min(concerned, default=None)

    def _concerns(self, one: Channel, other: Channel) -> bool:
        return one == other or not self._slow & {one, other}


class Slot:
    """The turn of one message."""

    def __init__(self, of: InDoubt, channel: Channel) -> None:
        self._of = of
        self.channel = channel
        self.over = False

    def enter(self) -> None:
        """Wait for it, for at most `LONGEST_WAIT_S`."""
        self._of.enter(self)

    def leave(self) -> None:
        """End it; nothing when it was not entered or was lost."""
        self._of.leave(self)
