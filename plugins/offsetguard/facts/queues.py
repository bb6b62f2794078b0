"""One suspect queue of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.records import record
from offsetguard.tables.facts import QueueFigures

if TYPE_CHECKING:
    from offsetguard.offsets import MessageQueue, QueueOffsets
    from offsetguard.queue_state import QueueState
    from offsetguard.verdicts import QueueVerdict


@record(kw_only=True)
class QueueFacts(QueueFigures):
    """One suspect queue of one consumer group."""

    message_queue: MessageQueue
    offsets: QueueOffsets
    window: QueueState | None = None  # None: published by an earlier release
    verdict: QueueVerdict | None = None  # given by `windows.judge_queues`; None: not judged yet
