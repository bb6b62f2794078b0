"""Topics and groups that a master had and has no longer: by hand, or by a replica that took over with an older state.

Compared are the settings that a master gives (GET_ALL_TOPIC_CONFIG, GET_ALL_SUBSCRIPTIONGROUP_CONFIG) with those of the
newest round in which it gave any. While it is away, what it had stands in the manifest, in its `unseen_brokers`, up to
MAX_REMEMBERED names of a kind: a failover mostly costs a round. What has vanished is remembered for a day, unless it
comes back; then it is taken for removed on purpose. Who did it, a line of the broker's log says; logs are read after
the settings, so the line may come a round before the name is missed, and stands in the manifest till then.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pyarrow import compute as pc

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.earlier_round import MISSING_REMEMBERED, EarlierRound
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.manifest import Deletion, RequestLedger
from offsetguard.collect.system_names import is_system_group
from offsetguard.model.fact_records import UnseenBrokerFacts, VanishedFacts
from offsetguard.model.rocketmq import OPERATORS_THREAD
from offsetguard.sources.logs.events import LogEvent
from offsetguard.tables import GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS, TOPIC_SETTINGS

MAX_REMEMBERED = 2_000  # topics, and groups, of a master that is away: they stand in each of its manifests
MAX_VANISHED = 200  # of a round: a master that comes up empty loses thousands at once
_NORMAL = "normal"
_DELETIONS = {"topic_deleted": "topic", "group_deleted": "consumer_group"}
Names = Mapping[str, frozenset[str]]  # by broker name


def known_before(earlier: EarlierRound) -> tuple[Names, Names]:
    """Return the topics, of no special kind, and the groups that each master had when it was seen last."""
    topics, groups = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    settings = earlier.columns(TOPIC_SETTINGS, ("broker_name", "topic", "topic_kind"))
    if settings is not None:
        for row in settings.filter(pc.equal(settings["topic_kind"], _NORMAL)).to_pylist():
            topics[row["broker_name"]].add(row["topic"])
    created = earlier.columns(GROUP_SNAPSHOTS, ("consumer_group", "created_on"))
    for row in created.to_pylist() if created is not None else ():
        for name in row["created_on"] or ():
            groups[name].add(row["consumer_group"])
    for one in earlier.manifest.unseen_brokers if earlier.manifest else ():
        topics[one.broker_name].update(one.topics)
        groups[one.broker_name].update(one.created_groups)
    return _frozen(topics), _frozen(groups)


def remembering(
    unseen: Iterable[UnseenBrokerFacts], before: tuple[Names, Names], ledger: RequestLedger
) -> Iterator[UnseenBrokerFacts]:
    """Yield unseen masters with what each had when it was seen last; the ledger counts what is left out of that."""
    topics, groups = before
    for one in unseen:
        had, created = (sorted(names.get(one.broker_name, ())) for names in (topics, groups))
        ledger.leave_out(
            f"names of topics and groups that {one.broker_name} had",
            sum(max(0, len(names) - MAX_REMEMBERED) for names in (had, created)),
            f"{MAX_REMEMBERED:,} of each are remembered while a master is away; which of the others vanish meanwhile is"
            " not told",
        )
        yield replace(one, topics=tuple(had[:MAX_REMEMBERED]), created_groups=tuple(created[:MAX_REMEMBERED]))


def vanished(
    earlier: EarlierRound,
    before: tuple[Names, Names],
    masters: Sequence[BrokerReading],
    *,
    members: Mapping[str, GroupMembers],
    deletions: Iterable[Deletion],
    now: datetime,
) -> tuple[VanishedFacts, ...]:
    """Return what is gone from masters that say what they have; at most MAX_VANISHED."""
    now_there = _there(masters)
    found = (
        [one for one in earlier.manifest.vanished if now - one.gone_at < MISSING_REMEMBERED] if earlier.manifest else []
    )
    away_since = (
        {one.broker_name: one.unseen_since for one in earlier.manifest.unseen_brokers} if earlier.manifest else {}
    )
    for place, names in enumerate(before):
        for broker_name, had in sorted(names.items()):
            there = now_there.get((place == 1, broker_name))
            gone = sorted(name for name in had - there if not is_system_group(name)) if there is not None else []
            used = _used(place == 1, gone, broker_name, earlier, members) if gone else {}
            last_seen_at = away_since.get(broker_name) or (earlier.manifest.finished_at if earlier.manifest else None)
            found += [VanishedFacts(name, place == 1, broker_name, last_seen_at, now, *used[name]) for name in gone]
    by_operators = sorted(deletions, key=_is_an_operators)  # which count most: the last of equal names stays
    deleted = {_key(one): one for one in by_operators}
    return tuple(
        _with_thread(one, deleted.get(_key(one)))
        for one in dict.fromkeys(found)
        if one.name not in now_there.get((one.is_group, one.broker_name), ())
    )[:MAX_VANISHED]


def deletions_in(events: Iterable[LogEvent]) -> list[Deletion]:
    """Return what the masters' logs say was deleted."""
    return [
        Deletion(str(one.fields[name]), one.kind == "group_deleted", one.origin.broker_name, one.at, one.thread)
        for one in events
        if (name := _DELETIONS.get(one.kind)) and one.origin.broker_name is not None
    ]


def to_remember(
    before: Iterable[Deletion], told: Iterable[Deletion], masters: Sequence[BrokerReading]
) -> tuple[Deletion, ...]:
    """Return the deletions that the next round may have to know; at most MAX_VANISHED.

    `told`: by this round's logs; of these, what the settings still have. `before`: those that the round before
    remembered; of these, what a master that gave no settings had. Others are told of by now.
    """
    there = _there(masters)
    unseen = [one for one in (*before, *told) if (one.is_group, one.broker_name) not in there]
    still = [one for one in told if one.name in there.get((one.is_group, one.broker_name), ())]
    return (*unseen, *still)[:MAX_VANISHED]


def _there(masters: Sequence[BrokerReading]) -> dict[tuple[bool, str], frozenset[str]]:
    """Return the groups, or topics, that a broker has, by whether they are groups; none of what it did not say."""
    named = ((is_group, one) for one in masters for is_group in (False, True))
    found = {(is_group, one.broker_name): one.groups if is_group else one.topics for is_group, one in named}
    return {whose: frozenset(names) for whose, names in found.items() if names is not None}


def _key(one: Deletion | VanishedFacts) -> tuple[bool, str, str]:
    return one.is_group, one.broker_name, one.name


def _is_an_operators(one: Deletion) -> bool:
    return (one.thread or "").startswith(OPERATORS_THREAD)


def _used(
    is_group: bool, names: Sequence[str], broker_name: str, earlier: EarlierRound, members: Mapping[str, GroupMembers]
) -> dict[str, tuple[int | None, bool | None]]:
    """Return by name how many messages waited there when it was seen last, and whether clients were online."""
    before = earlier.columns(GROUP_SNAPSHOTS, ("consumer_group", "online_client_count"))
    counts = {row["consumer_group"]: row["online_client_count"] for row in before.to_pylist()} if before else {}
    counts |= {group: one.online_client_count for group, one in members.items()}
    groups_of = {name: {name} for name in names} if is_group else {name: set[str]() for name in names}
    for group, member in members.items() if not is_group else ():
        for topic in member.subscribed_topics & groups_of.keys():
            groups_of[topic].add(group)
    waiting: dict[str, int] = {}
    columns = ("broker_name", "topic", "consumer_group", "consumer_offset", "max_offset")
    for rows in earlier.parts(QUEUE_SNAPSHOTS, columns):
        for row in rows.filter(pc.equal(rows["broker_name"], broker_name)).to_pylist():
            name = row["consumer_group"] if is_group else row["topic"]
            if name in groups_of:
                groups_of[name].add(row["consumer_group"])
                if row["consumer_offset"] is not None and row["max_offset"] is not None:
                    lag = max(0, row["max_offset"] - row["consumer_offset"])
                    waiting[name] = waiting.get(name, 0) + lag
    return {name: (waiting.get(name), _any_online([counts.get(one) for one in groups_of[name]])) for name in names}


def _any_online(counts: Sequence[int | None]) -> bool | None:
    if any(counts):
        return True
    return None if None in counts else False


def _with_thread(one: VanishedFacts, deletion: Deletion | None) -> VanishedFacts:
    """Return it with the thread that deleted it, where a line of the broker's log says so.

    What an operator deletes on a master another thread deletes on its slaves, whose logs have the broker's name, too.
    """
    if deletion is None or (one.deleted_by or "").startswith(OPERATORS_THREAD):
        return one
    return replace(one, deleted_at=deletion.at, deleted_by=deletion.thread)


def _frozen(names: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {broker_name: frozenset(some) for broker_name, some in names.items()}
