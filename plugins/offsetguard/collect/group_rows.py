"""Rows of `group_snapshots`: what the masters together say of each consumer group.

Lite topics (5.5), one queue per chat session and thousands of them, are folded here so that they flood no table. A lite
topic is stored as `%LMQ%$<parent>$<lite>`, queue 0. It stands in no topic table (21, 206), has no retry topic, and
gives code 43 one key per group. Other light queues (`%LMQ%...` without the first `$`, as MQTT gateways make them) have
no parent. Source: LiteUtil, 5.5.0; bodies of a live 5.5.1 broker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from offsetguard.collect.broker_reading import BrokerReading, ConsumeQueues
from offsetguard.collect.departures import departures
from offsetguard.collect.group_members import GroupMembers, known_groups, missing_members
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import Gap, Outcome
from offsetguard.collect.pop import progress
from offsetguard.collect.pop_figures import GroupConsumption
from offsetguard.collect.refused_pulls import refusing_columns
from offsetguard.collect.retry_topics import Backlog, backlogs, oldest_dead_letter_at
from offsetguard.collect.round import Round
from offsetguard.collect.system_names import is_lite_topic, is_system_group
from offsetguard.model.offsets import growth
from offsetguard.sources.rocketmq.offset_table import TopicAtGroup

_MOST_MISSING = 20
_BEYOND_ALL_COUNTS = 2**63


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Everything that the rows are made of. `masters`: all that are listed; those that answered nothing say nothing."""

    one_round: Round
    masters: Sequence[BrokerReading]
    members: Mapping[str, GroupMembers]
    consumption: Mapping[str, GroupConsumption]

    def __iter__(self) -> Iterator[Row]:
        """Yield one row per group, in order of their names."""
        groups = sorted(known_groups(self.masters, self.members))
        seen = {one.broker_name for one in self.masters if one.gave_offsets}
        earlier, suspects = self.one_round.earlier_figures, self.one_round.choice.suspects
        comparable = seen == earlier.seen_masters
        lite = lite_columns(self.masters)
        detailed = frozenset().union(*(one.detailed_groups for one in self.masters))
        for group, found in zip(groups, backlogs(self.masters, groups), strict=True):
            before = earlier.groups.get(group, {})
            yield {
                "cluster": self.one_round.cluster,
                "interval_start": self.one_round.interval.start,
                "consumer_group": group,
                "system_group": is_system_group(group),
                **self._settings_columns(group),
                **self._member_columns(group),
                **self._difference_columns(group, before),
                **self._consumption_columns(group, before),
                **_backlog_columns(found, before if comparable else {}),
                "oldest_dead_letter_at": oldest_dead_letter_at(self.masters, group, found[1], before),
                "uncommitted_at": self._uncommitted_at(group),
                "client_stacks": self.one_round.stacks.kept(
                    group, self.masters, self.one_round.proxy_members.get(group, ())
                ),
                "departures": self._departures(group, before, comparable=comparable),
                **lite.get(group, {}),
                "suspect_reason": suspects.get(group),
                "in_detail": group in detailed,
            }

    def _departures(self, group: str, before: Mapping[str, Any], *, comparable: bool) -> list[str] | None:
        earlier = self.one_round.earlier_figures
        listed_before = earlier.clients.get(group, frozenset()) if comparable else frozenset()
        since = earlier.finished_at or self.one_round.interval.start
        return departures(group, self.masters, listed_before, before.get("departures", ()), since)

    def _uncommitted_at(self, group: str) -> datetime | None:
        """Return the newest round without its commits: this one, the one before, or the one that this remembers."""
        complete = all(one.gave_offsets for one in self.masters)
        if complete and not any(one.has_commits(group) for one in self.masters):
            return max((one.committed_at for one in self.masters if one.committed_at), default=None)
        if group in self.one_round.earlier_figures.groups:
            noted: datetime | None = self.one_round.earlier_figures.groups[group]["uncommitted_at"]
            return noted
        seen = {one.broker_name for one in self.masters if one.gave_offsets}
        return (
            self.one_round.earlier_figures.finished_at if seen <= self.one_round.earlier_figures.seen_masters else None
        )

    def _settings_columns(self, group: str) -> Row:
        having = [one for one in self.masters if one.groups and group in one.groups]
        settings = having[0].groups[group] if having and having[0].groups else None
        policy = self.one_round.config.policy(self.one_round.cluster, group)
        return {
            "created_on": sorted(one.broker_name for one in having),
            "retry_max_times": settings.retry_max_times if settings else None,
            **refusing_columns(group, self.masters, self.members.get(group)),
            "which_broker_when_consume_slowly": settings.which_broker_when_consume_slowly if settings else None,
            "declared_orderly": policy.orderly,
            "lock_interval_ms": policy.lock_interval_ms,
            "lock_max_live_time_ms": self.one_round.config.clusters[self.one_round.cluster].lock_max_live_time_ms,
        }

    def _member_columns(self, group: str) -> Row:
        member = self.members.get(group)
        return {
            "online_client_count": member.online_client_count if member else None,
            "message_model": member.message_model if member else None,
            "consume_type": member.consume_type if member else None,
            "client_versions": list(member.client_versions) if member else None,
        }

    def _difference_columns(self, group: str, before: Mapping[str, Any]) -> Row:
        missing = missing_members(group, self.masters)
        if not missing:
            return {"members_differ": None if missing is None else False}
        seen_at = max((one.answered_at for one in self.masters if one.answered_at), default=None)
        return {
            "members_differ": True,
            "members_differ_since": before.get("members_differ_since") or seen_at,
            "missing_members": [f"{client_id} {broker_name}" for client_id, broker_name in missing[:_MOST_MISSING]],
        }

    def _consumption_columns(self, group: str, before: Mapping[str, Any]) -> Row:
        if group not in self.consumption:
            return {}
        one = self.consumption[group]
        if not one.is_pop:
            return one.columns()
        read_at = max((master.committed_at for master in self.masters if master.committed_at), default=None)
        return {**one.columns(), **progress(before, one.finished, one.inflight, read_at)}


def _backlog_columns(found: tuple[Backlog | None, Backlog | None], before: Mapping[str, Any]) -> Row:
    columns: Row = {}
    for name, backlog in zip(("retry", "dead_letter"), found, strict=True):
        max_offset = backlog.max_offset if backlog else None
        columns[f"{name}_message_count"] = backlog.message_count if backlog else None
        columns[f"{name}_max_offset"] = max_offset
        columns[f"{name}_growth"] = growth(max_offset, before.get(f"{name}_max_offset"))
    return columns


def lite_topics_by_group(committed: Iterable[TopicAtGroup]) -> dict[str, set[str]]:
    """Return the light queues that each group has committed offsets for; groups without any are missing."""
    found: dict[str, set[str]] = {}
    for topic, group in committed:
        if is_lite_topic(topic):
            found.setdefault(group, set()).add(topic)
    return found


def lite_lag(queues: ConsumeQueues) -> int | None:
    """Sum what waits in the light queues of a group on one broker, from its 208; None when it lists none of them.

    Offsets that were committed beyond the end count as nothing, not as less than nothing.
    """
    waiting = [
        max(0, offsets.broker_offset - offsets.consumer_offset)
        for topic, broker_name in queues.topics
        if is_lite_topic(topic)
        for offsets in queues.of_topic(topic, broker_name).values()
    ]
    return sum(waiting) if waiting else None


def lite_columns(masters: Sequence[BrokerReading]) -> dict[str, Row]:
    """Fold the lite topics of every group over all masters; groups without any are missing.

    The lag is known only when every master that holds lite topics of the group was asked (208): half of a sum would
    look like less work than there is.
    """
    by_master = [lite_topics_by_group(one.committed_offsets) for one in masters]
    columns: dict[str, Row] = {}
    for group in {group for one in by_master for group in one}:
        holding = [one[group] for one in by_master if group in one]
        answers = [one.consume_stats[group].body for one in masters if group in one.consume_stats]
        lags = [lag for one in answers if one is not None and (lag := lite_lag(one)) is not None]
        lag = sum(lags) if len(lags) >= len(holding) else None
        columns[group] = {
            "lite_topic_count": len(set().union(*holding)),  # with a committed offset of the group
            "lite_lag": lag if lag is not None and lag < _BEYOND_ALL_COUNTS else None,
        }
    return columns


def offsets_out_of_sight(master: BrokerReading, offsets_before: Callable[[str], int]) -> Gap | None:
    """Explain why all committed offsets of a broker are gone, where its switch `enableLmq` does; None otherwise.

    The switch makes the broker use another file (lmqConsumerOffset.json): the old offsets are not lost and come back
    when it is switched back, so this is no reset. `offsets_before(broker name)`: how many there were in the last round.
    """
    body = master.committed.body if master.committed else None
    switched_on = (master.settings or {}).get("enableLmq", "").lower() == "true"
    if body is None or not switched_on or any(_is_of_application(*pair) for pair in body.offsets):
        return None
    count = offsets_before(master.broker_name)
    if count == 0:
        return None
    reason = (
        f"all {count} committed offsets are gone, and enableLmq is on: since it was switched the broker reads "
        "lmqConsumerOffset.json instead of consumerOffset.json; switch it back, or copy the offsets over"
    )
    return master.replica.gap("committed offsets", Outcome.ANSWERED, reason)


def _is_of_application(topic: str, group: str) -> bool:
    return not is_lite_topic(topic) and not is_system_group(group)
