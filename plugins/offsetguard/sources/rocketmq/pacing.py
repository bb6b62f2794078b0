"""How fast one peer may be asked: requests in flight, requests per second, and pauses while it says that it is busy.

Goal: a broker does not notice that it is watched, and one that is in trouble is left in peace.
Plan: never more than `max_in_flight` unanswered, never more than `max_requests_per_s` sent within any second. When the
peer says that it is busy, nothing is sent for a pause, half as many requests may be in flight afterwards, and that
request is repeated, at most BUSY_REPEATS times after longer pauses. When GIVE_UP_AFTER requests in a row have used up
their repeats, the peer is hopeless for who waits now. Good answers give the places back, one for each GOOD_ANSWERS.
Not here: sockets and the clock; every method is told the time (seconds, monotonic).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from offsetguard.sources.rocketmq.codes import ResponseCode

BUSY_REPEATS = 2
BUSY_PAUSES_S = (0.1, 0.5, 0.5)  # after the first, second and third time that one request was refused so
GIVE_UP_AFTER = 3
GOOD_ANSWERS = 64
SECOND = 1.0

_BUSY_CODES = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL})
_BUSY_REMARKS = ("[REJECTREQUEST]", "[OVERLOAD]", "[TIMEOUT_CLEAN_QUEUE]", "start flow control")


@dataclass(frozen=True, slots=True)
class PeerCounts:
    """What asking one peer has cost it so far, for the round's report."""

    requests: int = 0  # sent, repeats too
    busy_answers: int = 0
    paused_s: float = 0.0


class Pacing:
    """The limits of one peer and what is used of them."""

    def __init__(self, max_in_flight: int, max_requests_per_s: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_requests_per_s = max_requests_per_s
        self._places = max_in_flight
        self._good_answers = 0
        self._hopeless_answers = 0
        self._sent: deque[tuple[float, int]] = deque()  # (until when it counts, how many)
        self._sent_count = 0
        self._paused_until = float("-inf")
        self._counts = PeerCounts()

    @property
    def counts(self) -> PeerCounts:
        """Return what was counted so far."""
        return self._counts

    @property
    def is_hopeless(self) -> bool:
        """Whether the peer has been busy for so long that asking on is of no use."""
        return self._hopeless_answers >= GIVE_UP_AFTER

    def start_over(self) -> None:
        """Let those who come later try; one request that is refused to the end shows that nothing has changed."""
        self._hopeless_answers = GIVE_UP_AFTER - 1

    def allowed(self, now: float, in_flight: int) -> int:
        """Return how many requests may be sent now."""
        if now < self._paused_until:
            return 0
        while self._sent and self._sent[0][0] <= now:
            self._sent_count -= self._sent.popleft()[1]
        return max(0, min(self._places - in_flight, self._max_requests_per_s - self._sent_count))

    def next_chance(self, now: float) -> float | None:
        """Return when to look again after `allowed` said 0; None = when an answer has come."""
        if now < self._paused_until:
            return self._paused_until
        return self._sent[0][0] if self._sent_count >= self._max_requests_per_s else None

    def sent(self, now: float, count: int) -> None:
        """Count requests that were sent."""
        self._sent.append((now + SECOND, count))
        self._sent_count += count
        self._counts = PeerCounts(self._counts.requests + count, self._counts.busy_answers, self._counts.paused_s)

    def answered(self) -> None:
        """Take note of an answer that says nothing of being busy."""
        self._hopeless_answers = 0
        if self._places < self._max_in_flight:
            self._good_answers += 1
            if self._good_answers >= GOOD_ANSWERS:
                self._good_answers = 0
                self._places += 1

    def busy(self, now: float, times: int) -> bool:
        """Take note that a request was refused as busy for the n-th time; return whether to repeat it."""
        if now >= self._paused_until:  # refusals of requests that were in flight together are one event
            self._places = max(1, self._places // 2)
        until = max(self._paused_until, now + BUSY_PAUSES_S[min(times, len(BUSY_PAUSES_S)) - 1])
        paused_s = until - max(self._paused_until, now)
        counts = self._counts
        self._counts = PeerCounts(counts.requests, counts.busy_answers + 1, counts.paused_s + paused_s)
        self._paused_until = until
        self._good_answers = 0
        if times <= BUSY_REPEATS:
            return True
        self._hopeless_answers += 1
        return False


def is_busy(code: int, remark: str | None) -> bool:
    """Whether an answer means "not now": refused by flow control, or taken out of a queue that is too long.

    Source: `NettyRemotingAbstract.processRequestCommand` and `BrokerFastFailure` (4.9.8, 5.3.3).
    """
    if code in _BUSY_CODES:
        return True
    return code != ResponseCode.SUCCESS and remark is not None and any(mark in remark[:200] for mark in _BUSY_REMARKS)
