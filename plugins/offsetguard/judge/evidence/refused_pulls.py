"""Groups of which brokers refuse pulls because of a setting: on which masters, and what waits there.

A group whose pulls are refused looks like one that hangs, or that is offline: its clients run and get nothing.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.judged_groups import JudgedGroup, judged_groups
from offsetguard.judge.evidence.lookups import MOST_COMMANDS, lag_evidence, sum_at_least
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Explains, Scope, Sentence
from offsetguard.judge.windows.windows import is_subscribed
from offsetguard.model.verdicts import Figure, QueueEvidence

EXPLAINED = (
    Explains(
        Scope.QUEUES,
        (
            *("accumulation", "slow_consumption", "flow_control", "never_committed", "consumer_offline"),
            *("client_stands_still", "queue_not_pulled", "poison_message", "lock_not_released", "lock_contention"),
        ),
    ),
    Explains(Scope.TOPIC, ("idle_consumers",)),
)
"""What a refusal explains of the queues where it is: nobody can consume them, whatever clients do."""


@dataclass(frozen=True, slots=True)
class RefusedPulls:
    """One (consumer group, topic) on the masters that refuse its pulls for one reason."""

    judged: JudgedGroup
    why: str  # as in `group_facts.refusals`
    broker_names: tuple[str, ...]
    queues: tuple[QueueFacts, ...]  # there, in which messages wait

    @property
    def is_missed(self) -> bool:
        """Whether somebody misses these messages: clients are online that would consume them, or limits are passed."""
        return bool(self.queues) and (bool(self.judged.group.online_client_count) or self.judged.above_limit)

    @property
    def unsure(self) -> bool:
        """Whether what decides that was not seen."""
        return not self.is_missed and (self.judged.waits_unknown or self.judged.group.online_client_count is None)

    @property
    def evidence(self) -> tuple[QueueEvidence, ...]:
        """The queues, worst first; those without a commit last."""
        behind = [one for one in self.queues if one.offsets.consumer_offset is not None]
        others = sorted((one for one in self.queues if one not in behind), key=lambda one: one.message_queue)
        return (
            *lag_evidence(behind),
            *(
                QueueEvidence(
                    one.message_queue, {"min_offset": one.offsets.min_offset, "max_offset": one.offsets.max_offset}
                )
                for one in others
            ),
        )

    def figures(self, facts: IntervalFacts) -> dict[str, Figure]:
        """Return what texts say of it."""
        return {
            "waiting": sum_at_least(map(_waiting, self.queues)),
            "queue_count": len(self.queues),
            "on_brokers": names(self.broker_names),
            "refusing_addresses": addresses(facts, self.broker_names),
            "enabling_options": self.judged.group.enabling_options,
            "other_settings": other_settings(self.judged.group.reset_settings),
            "online_client_count": self.judged.group.online_client_count,
        }


def other_settings(reset_settings: str | None) -> Sentence:
    """Return what becomes of a group's other settings by the command that lets it consume."""
    if reset_settings is None:
        return Sentence("keeps_other_settings")
    return Sentence("resets_other_settings", settings=reset_settings)


def addresses(facts: IntervalFacts, broker_names: Collection[str]) -> str | None:
    """Return the addresses of the first of some masters, by which commands name them; None: none is known.

    `broker_names`: empty = of all.
    """
    masters = (one for one in facts.brokers if one.broker_id == 0)
    found = [one.address for one in masters if one.broker_name in (broker_names or {one.broker_name})]
    return " ".join(filter(None, found[:MOST_COMMANDS])) or None


def refused_pulls(facts: IntervalFacts, config: Config, reasons: Collection[str]) -> Iterator[RefusedPulls]:
    """Yield what is refused for one of some reasons, of each (group, topic) that one with the most queues.

    Not of a topic that no client subscribes to; of retry and dead-letter topics only where messages wait.
    """
    for judged in judged_groups(facts, config):
        group = judged.group
        found = [one for why in reasons if (one := _refused(judged, why)) is not None]
        if found and is_subscribed(group) is not False:
            worst = max(found, key=lambda one: len(one.queues))
            if worst.queues or group.topic_kind == "normal":
                yield worst


def _refused(judged: JudgedGroup, why: str) -> RefusedPulls | None:
    listed = (one.rpartition(" ") for one in judged.group.refusals or ())
    broker_names = tuple(name for name, _, reason in listed if reason == why)
    if not broker_names:
        return None
    there = (one for one in judged.queues if one.message_queue.broker_name in broker_names)
    return RefusedPulls(judged, why, broker_names, tuple(one for one in there if _waiting(one) != 0))


def _waiting(queue: QueueFacts) -> int | None:
    """Return how many messages wait; of a queue without a commit all that are kept; None = not known."""
    low, high = queue.offsets.min_offset, queue.offsets.max_offset
    if queue.offsets.consumer_offset is not None:
        lag = queue.offsets.effective_lag
        return None if lag is None else max(0, lag)
    return None if low is None or high is None else max(0, high - low)
