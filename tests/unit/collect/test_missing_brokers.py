"""Name servers that are away or forgetful, and brokers that were there: missed since when, and what lay there."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from offsetguard.collect.broker_rows import kinds_since, silent_slaves, unseen_masters
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.landing import table_of
from offsetguard.collect.manifest import MAX_HIDDEN_GROUPS, Gap, Manifest, Outcome
from offsetguard.collect.name_servers import ClusterMembers
from offsetguard.collect.replica import Replica
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.rules.broker_unreachable import find
from offsetguard.model.fact_records import UnseenBrokerFacts
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_SNAPSHOTS
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.scripted.broker import name_server_of
from offsetguard_peers.scripted.peer import Conversation, hangs
from offsetguard_peers.scripted.rounds import INTERVAL, QUICK_MS, Play, collect, config_for, healthy_broker

NOBODY = "127.0.0.1:9"


def test_name_servers_are_tried_in_order_and_each_failure_names_its_key(play: Play) -> None:
    rounds = play(healthy_broker(), request_timeout_ms=QUICK_MS)
    silent, name_server = rounds.serve(hangs), rounds.serve(name_server_of(rounds.listed))
    manifest = rounds.run(name_servers=[NOBODY, silent.address, name_server.address])
    assert [gap.outcome.value for gap in manifest.gaps] == ["unreachable", "timed_out"]
    assert re.search(r"127\.0\.0\.1:9:.*clusters\.main\.name_servers\.0", manifest.gaps[0].reason)
    assert not manifest.cluster_unseen
    assert rounds.rows(QUEUE_SNAPSHOTS)


def test_a_name_server_that_has_just_started_does_not_hide_what_another_one_lists(play: Play) -> None:
    rounds = play(healthy_broker("broker-a"), healthy_broker("broker-b"))
    known = dict(rounds.listed)
    new, old = rounds.serve(name_server_of(known)), rounds.serve(name_server_of(rounds.listed))
    for old_is_asked in (0, 1):
        manifest = rounds.run(name_servers=[new.address, old.address])
        assert manifest.master_broker_names == ("broker-a", "broker-b")
        assert manifest.complete, manifest.gaps
        assert old.connection_count == old_is_asked, "it is asked only when it matters"
        known.pop("broker-b", None)


def test_a_name_server_that_trips_over_a_brokers_going_is_asked_once_more(play: Play) -> None:
    rounds = play(healthy_broker())

    async def trips_first(conversation: Conversation) -> None:
        request = await conversation.next_request()
        conversation.answer(request, code=1, remark="java.util.ConcurrentModificationException")
        await name_server_of(rounds.listed)(conversation)

    manifest = rounds.run(name_servers=[rounds.serve(trips_first).address])
    assert manifest.complete, manifest.gaps
    assert manifest.requests.refused == 1


def test_one_connection_that_takes_long_is_no_proof_that_a_name_server_is_down(play: Play) -> None:
    rounds = play(healthy_broker(), request_timeout_ms=QUICK_MS)

    async def slow_once(conversation: Conversation) -> None:
        await (conversation.hang() if conversation.number == 1 else name_server_of(rounds.listed)(conversation))

    manifest = rounds.run(name_servers=[rounds.serve(slow_once).address])
    assert manifest.complete, manifest.gaps
    assert not manifest.cluster_unseen
    assert manifest.requests.timed_out == 1


def test_a_name_server_that_lists_thousands_costs_no_more_than_the_limit_and_the_rest_is_a_gap(play: Play) -> None:
    rounds = play(healthy_broker("broker-z"))
    rounds.run()
    rounds.listed |= {f"broker-{number}": NOBODY for number in range(8_000)}
    manifest = rounds.run(collection={"replicas": 100})
    assert len(manifest.master_broker_names) == 100
    assert "broker-z" not in manifest.unseen_broker_names, "who was there before is asked first"
    assert manifest.requests.asked < 500
    assert any("8001 replicas are listed, 100 were asked" in gap.reason for gap in manifest.gaps)


def test_a_name_server_without_brokers_is_not_an_empty_healthy_cluster() -> None:
    manifest, _ = collect()
    assert manifest.cluster_unseen
    assert "lists no broker at all" in manifest.gaps[0].reason


def test_without_a_name_server_the_brokers_of_the_last_round_are_listed_as_unseen(play: Play) -> None:
    rounds = play(healthy_broker())
    rounds.run()
    manifest = rounds.run(name_servers=[NOBODY])
    assert manifest.cluster_unseen
    assert manifest.unseen_broker_names == manifest.master_broker_names == ("broker-a",)
    (broker,) = rounds.rows(BROKER_SNAPSHOTS)
    assert (broker["answered"], broker["failure"]) == (False, "no name server answered, so it was not asked")


def judged_as(manifest: Manifest) -> str | None:
    """Return how bad a broker that cannot be reached is; the first minute may be a restart."""
    interval = Interval(manifest.interval_start)
    facts = IntervalFacts(
        cluster="main",
        interval=interval,
        now=interval.end,
        gaps=manifest.gap_facts(),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        unseen_brokers=manifest.unseen_brokers,
    )
    found = list(find(facts, config_for(NOBODY)))
    assert all("1 consumer group with offsets there cannot be judged (billing)" in one.cause for one in found)
    return found[0].severity.value if found else None


def test_a_master_that_left_the_name_servers_list_is_missed_for_a_day(play: Play) -> None:
    rounds = play(healthy_broker("broker-a"), healthy_broker("broker-b"))
    there = rounds.run()
    assert there.complete
    assert (there.gap_kinds_since, judged_as(there)) == ({}, None)
    del rounds.listed["broker-b"]
    since: Interval | None = None
    for severity in ("info", "info", "critical"):
        manifest = rounds.run()
        since = since or rounds.interval
        assert manifest.unseen_broker_names == ("broker-b",)
        assert manifest.missing_masters[0].missing_since == since.start
        assert "no name server lists a master of broker-b" in manifest.gaps[0].reason
        (unseen,) = manifest.unseen_brokers
        assert (unseen.broker_name, unseen.unseen_since) == ("broker-b", since.end)
        assert (unseen.consumer_groups, unseen.consumer_group_count) == (("billing",), 1)
        assert manifest.gap_kinds_since == dict.fromkeys(manifest.gap_kinds, since.end)
        assert judged_as(manifest) == severity
    assert rounds.run(24 * 60 - 2).complete


THEN = datetime(2026, 11, 21, 10, 39, 5, tzinfo=UTC)
LATER = THEN + timedelta(minutes=1)
MASTER, SLAVE = ("broker-a", 0, "10.0.0.1:10911"), ("broker-a", 1, "10.0.0.2:10911")
MANY_GROUPS = tuple(f"group-{number:04d}" for number in range(MAX_HIDDEN_GROUPS + 20))
REPLICAS = table_of(
    BROKER_SNAPSHOTS, [dict(zip(("broker_name", "broker_id", "address"), one, strict=True)) for one in (MASTER, SLAVE)]
)


def earlier(*queues: tuple[str, str], **manifest: Any) -> EarlierRound:
    columns = pa.table({"broker_name": [name for name, _ in queues], "consumer_group": [group for _, group in queues]})
    landed = manifest_of(INTERVAL, started_at=THEN, **manifest)
    return EarlierRound(landed, {QUEUE_SNAPSHOTS.name: columns, BROKER_SNAPSHOTS.name: REPLICAS})


def members_of(*places: tuple[str, int, str]) -> ClusterMembers:
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
    assert list(earlier().missing_slaves(members_of(*now), LATER)) == missing, why


def test_a_slave_that_left_the_list_is_missed_for_a_day() -> None:
    for hours, is_missed in ((1, True), (23, True), (25, False)):
        noted = UnseenBrokerFacts(broker_name="broker-a", broker_id=1, unseen_since=LATER - timedelta(hours=hours))
        assert bool(earlier(unseen_brokers=(noted,)).missing_slaves(members_of(MASTER), LATER)) is is_missed, hours
    assert EarlierRound().missing_slaves(members_of(MASTER), LATER) == ()


def test_without_a_round_before_nothing_is_known() -> None:
    unknown = UnseenBrokerFacts(broker_name="broker-a", unseen_since=None)
    assert unseen_masters({"broker-a"}, EarlierRound(), LATER) == (unknown,)
    assert kinds_since({"timed_out X"}, EarlierRound(), LATER) == {}


@for_each(
    "queues, groups, count",
    [
        ([("broker-a", "orders"), ("broker-a", "billing"), ("broker-a", "orders")], ("billing", "orders"), 2),
        ([("broker-a", "billing"), ("broker-b", "mails"), ("broker-a", "CID_ONSAPI_OWNER")], ("billing",), 1),
        ([("broker-a", group) for group in MANY_GROUPS], MANY_GROUPS[:MAX_HIDDEN_GROUPS], len(MANY_GROUPS)),
    ],
)
def test_a_broker_that_was_seen_is_missed_since_now_with_its_groups_but_rocketmqs_own(
    queues: list[tuple[str, str]], groups: tuple[str, ...], count: int
) -> None:
    """The last round that was made is 20 minutes ago: those that were not made are no time in which it was away."""
    now = THEN + timedelta(minutes=20)
    (one,) = unseen_masters(["broker-a"], earlier(*queues), now)
    assert (one.unseen_since, one.consumer_groups, one.consumer_group_count) == (now, groups, count)


def test_a_slave_is_missed_by_itself_since_the_first_round_in_which_it_answered_nothing() -> None:
    """Its master, restarted just before, is another broker: what was noted of that one does not count for it."""
    master = UnseenBrokerFacts(broker_name="broker-a", unseen_since=THEN - timedelta(hours=1))
    (one,) = silent_slaves([("broker-a", 1)], earlier(unseen_brokers=(master,)), LATER)
    assert one == UnseenBrokerFacts(broker_name="broker-a", broker_id=1, unseen_since=LATER)
    assert silent_slaves([("broker-a", 1)], earlier(unseen_brokers=(one,)), LATER + timedelta(minutes=1)) == (one,)
    assert unseen_masters(["broker-a"], earlier(unseen_brokers=(one,)), LATER)[0].unseen_since == LATER
    assert silent_slaves([("broker-a", 1)], EarlierRound(), LATER)[0].unseen_since is None


def test_a_kind_of_gap_lasts_since_the_first_of_the_rounds_in_a_row_that_had_it() -> None:
    long_ago = THEN - timedelta(hours=1)
    before = earlier(
        gap_kinds={"timed_out X": 3, "refused Y": 1, "refused Z": 1}, gap_kinds_since={"refused Y": long_ago}
    )
    assert kinds_since({"timed_out X", "refused Y", "timed_out Z"}, before, LATER) == {
        "timed_out X": THEN,
        "refused Y": long_ago,
        "timed_out Z": LATER,
    }


def test_a_gap_that_stands_for_others_is_missed_since_they_are() -> None:
    """A broker whose connection breaks in the middle of a round is given up: a restart, and no trouble of its own."""

    def gap(what: str, outcome: Outcome) -> Gap:
        return Gap(address="10.0.0.3:10911", broker_name="broker-a", broker_id=0, what=what, outcome=outcome, reason="")

    lost = Outcome.CONNECTION_LOST
    gaps = (gap("X(y=1)", lost), gap("12 further requests, not sent", lost), gap("the rest", Outcome.TIMED_OUT))
    manifest = earlier(gaps=gaps, gap_kinds_since={"connection_lost X": LATER, "refused Y": THEN}).manifest
    assert manifest is not None
    assert [one.first_missed_at for one in manifest.gap_facts()] == [LATER, LATER, None]
