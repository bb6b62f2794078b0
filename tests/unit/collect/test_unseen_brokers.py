"""Of a master that gave no offsets, the rounds before know since when, and which groups lay there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from offsetguard.collect.broker_rows import kinds_since, silent_slaves, unseen_masters
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.landing import table_of
from offsetguard.collect.manifest import MAX_HIDDEN_GROUPS, Gap, Outcome, UnseenBroker
from offsetguard.collect.name_servers import ClusterMembers
from offsetguard.collect.replica import Replica
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_SNAPSHOTS
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.collecting import manifest_of

THEN = datetime(2026, 11, 21, 10, 39, 5, tzinfo=UTC)
NOW = THEN + timedelta(minutes=1)
INTERVAL = Interval.containing(THEN)
MASTER, SLAVE = ("broker-a", 0, "10.0.0.1:10911"), ("broker-a", 1, "10.0.0.2:10911")
REPLICAS = table_of(
    BROKER_SNAPSHOTS, [dict(zip(("broker_name", "broker_id", "address"), one, strict=True)) for one in (MASTER, SLAVE)]
)


def earlier(*queues: tuple[str, str], **manifest: Any) -> EarlierRound:
    columns = pa.table({"broker_name": [name for name, _ in queues], "consumer_group": [group for _, group in queues]})
    landed = manifest_of(INTERVAL, started_at=THEN, **manifest)
    return EarlierRound(landed, {QUEUE_SNAPSHOTS.name: columns, BROKER_SNAPSHOTS.name: REPLICAS})


def listed(*places: tuple[str, int, str]) -> ClusterMembers:
    return ClusterMembers(tuple(Replica(*place) for place in places), frozenset())


@for_each(
    "why, now, missing",
    [
        ("it is there", (MASTER, SLAVE), []),
        ("it was killed, and the name server has forgotten it", (MASTER,), [Replica(*SLAVE)]),
        ("it was started elsewhere", (MASTER, ("broker-a", 1, "10.0.0.9:10911")), []),
        (
            "it is the master now, and the old master is another number",
            (("broker-a", 0, SLAVE[2]), ("broker-a", 2, MASTER[2])),
            [],
        ),
        ("both are gone: the master is missed, too", (("broker-b", 0, "10.0.0.3:10911"),), [Replica(*SLAVE)]),
    ],
)
def test_a_slave_that_left_the_list_is_missed(why: str, now: Any, missing: list[Replica]) -> None:
    assert list(earlier().missing_slaves(listed(*now), NOW)) == missing, why


def test_a_slave_that_left_the_list_is_missed_for_a_day() -> None:
    for hours, is_missed in ((1, True), (23, True), (25, False)):
        noted = UnseenBroker(broker_name="broker-a", broker_id=1, unseen_since=NOW - timedelta(hours=hours))
        assert bool(earlier(unseen_brokers=(noted,)).missing_slaves(listed(MASTER), NOW)) is is_missed, hours
    assert EarlierRound().missing_slaves(listed(MASTER), NOW) == ()


def test_without_a_round_before_nothing_is_known() -> None:
    unknown = UnseenBroker(broker_name="broker-a", unseen_since=None)
    assert unseen_masters({"broker-a"}, EarlierRound(), NOW) == (unknown,)
    assert kinds_since({"timed_out X"}, EarlierRound(), NOW) == {}


def test_a_broker_that_was_seen_is_missed_since_now_with_its_groups_but_rocketmqs_own() -> None:
    before = earlier(
        *(("broker-a", "orders"), ("broker-a", "billing"), ("broker-a", "orders"), ("broker-b", "mails")),
        ("broker-a", "CID_ONSAPI_OWNER"),
    )
    (one,) = unseen_masters(["broker-a"], before, NOW)
    assert one.unseen_since == NOW
    assert (one.consumer_groups, one.consumer_group_count) == (("billing", "orders"), 2)


def test_rounds_that_were_not_made_are_no_time_in_which_a_broker_was_away() -> None:
    """It was seen by the last round that was made, 20 minutes ago: it is missed since now."""
    later = NOW + timedelta(minutes=20)
    (one,) = unseen_masters(["broker-a"], earlier(("broker-a", "orders")), later)
    assert one.unseen_since == later


def test_what_was_noted_of_a_broker_that_was_missed_already_stays() -> None:
    since = THEN - timedelta(hours=1)
    noted = UnseenBroker(
        broker_name="broker-a", unseen_since=since, consumer_groups=("billing",), consumer_group_count=1
    )
    before = earlier(unseen_broker_names=("broker-a",), unseen_brokers=(noted,))
    assert unseen_masters(["broker-a"], before, NOW) == (noted,)


def test_of_very_many_groups_the_first_are_named_and_all_are_counted() -> None:
    before = earlier(*(("broker-a", f"group-{n:04d}") for n in range(MAX_HIDDEN_GROUPS + 20)))
    (one,) = unseen_masters(["broker-a"], before, NOW)
    assert (len(one.consumer_groups), one.consumer_group_count) == (MAX_HIDDEN_GROUPS, MAX_HIDDEN_GROUPS + 20)


def test_a_slave_is_missed_by_itself_since_the_first_round_in_which_it_answered_nothing() -> None:
    """Its master, restarted just before, is another broker: what was noted of that one does not count for it."""
    master = UnseenBroker(broker_name="broker-a", unseen_since=THEN - timedelta(hours=1))
    (one,) = silent_slaves([("broker-a", 1)], earlier(unseen_brokers=(master,)), NOW)
    assert one == UnseenBroker(broker_name="broker-a", broker_id=1, unseen_since=NOW)
    assert silent_slaves([("broker-a", 1)], earlier(unseen_brokers=(one,)), NOW + timedelta(minutes=1)) == (one,)
    assert unseen_masters(["broker-a"], earlier(unseen_brokers=(one,)), NOW)[0].unseen_since == NOW
    assert silent_slaves([("broker-a", 1)], EarlierRound(), NOW)[0].unseen_since is None


def test_a_kind_of_gap_lasts_since_the_first_of_the_rounds_in_a_row_that_had_it() -> None:
    long_ago = THEN - timedelta(hours=1)
    before = earlier(
        gap_kinds={"timed_out X": 3, "refused Y": 1, "refused Z": 1}, gap_kinds_since={"refused Y": long_ago}
    )
    assert kinds_since({"timed_out X", "refused Y", "timed_out Z"}, before, NOW) == {
        "timed_out X": THEN,
        "refused Y": long_ago,
        "timed_out Z": NOW,
    }


def test_a_gap_that_stands_for_others_is_missed_since_they_are() -> None:
    """A broker whose connection breaks in the middle of a round is given up: a restart, and no trouble of its own."""

    def gap(what: str, outcome: Outcome) -> Gap:
        return Gap(address="10.0.0.3:10911", broker_name="broker-a", broker_id=0, what=what, outcome=outcome, reason="")

    lost = Outcome.CONNECTION_LOST
    gaps = (gap("X(y=1)", lost), gap("12 further requests, not sent", lost), gap("the rest", Outcome.TIMED_OUT))
    manifest = earlier(gaps=gaps, gap_kinds_since={"connection_lost X": NOW, "refused Y": THEN}).manifest
    assert manifest is not None
    assert [one.first_missed_at for one in manifest.gap_facts()] == [NOW, NOW, None]
