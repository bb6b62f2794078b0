"""Whom of a group that stands a round asks for thread stacks, how often, and what its row keeps of that."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from offsetguard.collect.broker_reading import BrokerReading, PairReading
from offsetguard.collect.client_stacks import AGAIN_AFTER, STANDS, StacksOfRound
from offsetguard.collect.collector import collect_round, snapshots_of_bundle
from offsetguard.collect.columns import microseconds
from offsetguard.collect.earlier_round import EarlierFigures, EarlierRound
from offsetguard.collect.manifest import Manifest
from offsetguard.collect.replica import Answer, Replica
from offsetguard.collect.snapshot import Snapshot
from offsetguard.model.fact_records import ClientStacks, ThreadStack, as_text, of_text
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.layout import Meta
from offsetguard.sources.bundle.reader import open_bundle
from offsetguard.sources.bundle.recording import BundleWriter, RecordingTransport
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.consumers import consumer_running_info
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import GROUP_SNAPSHOTS
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster, when
from offsetguard_peers.scripted.peer import Conversation
from offsetguard_peers.scripted.rounds import NO_SHARE, PATIENT_MS, Play, Rounds, broker_with, config_for

NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
BEFORE = NOW - timedelta(minutes=1)
CLIENT = "10.0.0.9@billing"
THREAD = ThreadStack(1, "TIMED_WAITING", ("com.acme.OrderListener.consumeMessage:42",), "java.lang.Thread.sleep")
JSTACK = (
    "ConsumeMessageThread_billing_1          TID: 28 STATE: TIMED_WAITING\n"
    "ConsumeMessageThread_billing_1          java.lang.Thread.sleep(Native Method)\n"
    "ConsumeMessageThread_billing_1          com.acme.OrderListener.consumeMessage(OrderListener.java:42)\n\n"
)
HOLDS = (
    b'{"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{"cachedMsgCount":6,"commitOffset":4}},'
    b'"properties":{},"statusTable":{},"subscriptionSet":[]}'
)
HOLDS_NONE = b'{"mqTable":{},"properties":{},"statusTable":{},"subscriptionSet":[]}'


def standing_broker(**fields: Any) -> ScriptedBroker:
    """Return a broker on which `billing` has a message that waits for a minute, and a client that holds its queue."""
    broker = broker_with(4, 10)
    broker.subscriptions = {"billing": ["orders"]}
    broker.running_info = {CLIENT: HOLDS}
    broker.jstack = JSTACK
    for name, value in fields.items():
        setattr(broker, name, value)
    return broker


def two_rounds(landing: Path, broker: ScriptedBroker) -> tuple[ClientStacks | None, Manifest]:
    """Return what the second round keeps of the group's threads, and its manifest."""
    with Rounds(landing, broker) as rounds:
        rounds.run()
        manifest = rounds.run()
        return kept(rounds), manifest


def kept(rounds: Rounds) -> ClientStacks | None:
    return of_text(rounds.group("billing")["client_stacks"])


def test_who_holds_up_its_group_from_one_round_to_the_next_is_asked_once(play: Play) -> None:
    broker = standing_broker()
    rounds = play(broker)
    rounds.run()
    assert (broker.stacks_asked, kept(rounds)) == ([], None), "one look shows nothing that stands"
    rounds.run()
    assert broker.stacks_asked == [CLIENT]
    said = kept(rounds)
    assert said is not None
    assert (said.client_id, said.thread_count, said.stacks) == (CLIENT, 1, (THREAD,))
    rounds.run()
    assert broker.stacks_asked == [CLIENT]
    assert kept(rounds) == said, "it stays with the group for the warning that comes minutes later"
    broker.committed["orders", "billing"] = {0: 5}
    rounds.run()
    over = kept(rounds)
    assert over == ClientStacks(CLIENT, said.taken_at), "what it did is over; that it was asked is remembered"
    assert not over.is_known
    rounds.run()
    assert (broker.stacks_asked, kept(rounds)) == ([CLIENT], over), "it stands again, within ten minutes"


def test_one_line_of_the_configuration_switches_it_off(play: Play) -> None:
    broker = standing_broker()
    rounds = play(broker, collection={**NO_SHARE, "stacks": 0})
    for _ in range(3):
        rounds.run()
    assert (broker.stacks_asked, kept(rounds)) == ([], None)


def test_a_round_asks_no_more_clients_than_the_configuration_allows(play: Play) -> None:
    broker = standing_broker()
    groups = ["billing", "audit", "mail"]
    broker.committed = {("orders", group): {0: 4} for group in groups}
    broker.pulled = dict(broker.committed)
    broker.subscriptions = {group: ["orders"] for group in groups}
    broker.running_info = {f"10.0.0.9@{group}": HOLDS for group in groups}
    rounds = play(broker, collection={**NO_SHARE, "stacks": 2})
    rounds.run()
    rounds.run()
    assert len(broker.stacks_asked) == 2
    rounds.run()
    assert sorted(broker.stacks_asked) == sorted(f"10.0.0.9@{group}" for group in groups), "the last one has its turn"


def test_nobody_is_asked_who_does_not_hold_up_the_group(play: Play, tmp_path: Path) -> None:
    for number, fields in enumerate(
        (
            {"running_info": {CLIENT: HOLDS_NONE}},  # nobody holds the queue
            {"oldest_age_ms": 20_000},  # it waits for less than STANDS
            {"subscriptions": {}},  # nobody is there
        )
    ):
        broker = standing_broker(**fields)
        said, _ = two_rounds(tmp_path / str(number), broker)
        assert (broker.stacks_asked, said) == ([], None), fields
    moving = standing_broker()
    rounds = play(moving)
    for offset in (4, 5, 6):
        moving.committed["orders", "billing"] = {0: offset}
        rounds.run()
    assert moving.stacks_asked == [], "slow, and it moves"


async def _recorded(broker: ScriptedBroker, folder: Path) -> list[str | None]:
    """Record two rounds; returns what they keep of the group's threads."""
    rounds: list[Snapshot] = []
    async with scripted_cluster(broker) as (name_server, _), RocketMQClient(timeout_ms=PATIENT_MS) as client:
        with BundleWriter(folder, Meta(cluster="main")) as bundle:
            transport = RecordingTransport(client, bundle, [name_server])
            for _ in range(2):
                now = datetime.now(UTC)
                bundle.begin_round(int(now.timestamp() * 1000))
                before = EarlierRound(rounds[-1].manifest, rounds[-1].tables) if rounds else None
                rounds.append(
                    await collect_round(
                        "main",
                        config_for(name_server),
                        Interval.containing(now),
                        started_at=now,
                        earlier=before,
                        transport=transport,
                    )
                )
                bundle.end_round()
    return [_kept_in(one) for one in rounds]


def _kept_in(snapshot: Snapshot) -> str | None:
    rows = snapshot.tables[GROUP_SNAPSHOTS.name].to_pylist()
    return next(row["client_stacks"] for row in rows if row["consumer_group"] == "billing")


def test_a_bundle_says_the_same(tmp_path: Path) -> None:
    kept_then = asyncio.run(_recorded(standing_broker(), tmp_path / "bundle"))
    assert kept_then[-1] is not None
    config = config_for("127.0.0.1:9876")
    replayed = asyncio.run(snapshots_of_bundle(open_bundle(tmp_path / "bundle"), "main", config))
    then, now = of_text(kept_then[-1]), of_text(_kept_in(replayed[-1]))
    assert then is not None
    assert now is not None
    assert (now.client_id, now.stacks) == (then.client_id, then.stacks)
    assert abs(now.taken_at - then.taken_at) < timedelta(seconds=1), "when it was recorded"


def _refuse(conversation: Conversation, request: RemotingCommand) -> None:
    conversation.answer(request, 207, "time out")


def test_where_a_client_does_not_say_it_the_row_says_why(tmp_path: Path) -> None:
    def stacks_are_asked(request: RemotingCommand) -> bool:
        return request.ext_fields.get("jstackEnable") == "true"

    wanted: list[tuple[Mapping[str, Any], str, list[str]]] = [
        ({"jstack": None}, "stacks_not_said", [CLIENT]),
        ({"jstack": "goroutine 1 [chan receive]:\n"}, "stacks_not_said", [CLIENT]),
        ({"language": "GO"}, "stacks_not_java", []),
        ({"running_info": {}}, "stacks_silent", []),
        ({"language": "PYTHON"}, "stacks_nobody_asks", []),
        ({"trouble": when(stacks_are_asked, _refuse)}, "stacks_silent", []),
        ({"jstack": JSTACK.replace("ConsumeMessageThread_billing_1", "main")}, "stacks_no_threads", [CLIENT]),
    ]
    for number, (fields, why, asked) in enumerate(wanted):
        broker = standing_broker(**fields)
        said, manifest = two_rounds(tmp_path / str(number), broker)
        assert said is not None, why
        assert (said.client_id, said.cannot_tell, broker.stacks_asked) == (CLIENT, why, asked)
        assert manifest.complete, "the client's failure, not the broker's"


def _round(consumer: int | None, stands_since: timedelta = STANDS, **group: Any) -> StacksOfRound:
    """Return a round that has looked at a queue of `billing` up to 10, and the one before it as `group` says."""
    stored = microseconds(NOW - stands_since)
    assert stored is not None
    ages = {("broker-a", "orders", "billing"): {0: (4, stored)}}
    figures = EarlierFigures(ages=ages, groups={"billing": group}, finished_at=BEFORE)
    looked = StacksOfRound(4, figures)
    pair = PairReading("billing", "orders", [0], [consumer], [0], [10], NOW, NOW)  # type: ignore[arg-type]
    looked.look_at("broker-a", pair)
    return looked


def _holding(**queue: object) -> bytes:
    return HOLDS.replace(b'"cachedMsgCount":6,"commitOffset":4', json.dumps(queue).encode()[1:-1])


def test_a_queue_stands_whose_offset_is_that_of_the_round_before_for_long_enough() -> None:
    holds = consumer_running_info(HOLDS)
    for looked, count in (
        (_round(4), 1),
        (_round(5), 0),  # it has moved
        (_round(4, STANDS - timedelta(microseconds=1)), 0),
        (_round(10), 0),  # nothing waits
        (_round(None), 0),  # nothing was ever committed, and the client does not say that it finishes nothing
    ):
        assert looked.held_up_by("billing", holds, NOW) == count
    hangs_since = int((NOW - STANDS).timestamp() * 1000)
    first = consumer_running_info(_holding(cachedMsgCount=6, lastConsumeTimestamp=hangs_since))
    young = consumer_running_info(_holding(cachedMsgCount=6, lastConsumeTimestamp=hangs_since + 1))
    empty = consumer_running_info(_holding(cachedMsgCount=0, lastConsumeTimestamp=hangs_since))
    assert [_round(None).held_up_by("billing", one, NOW) for one in (first, young, empty)] == [1, 0, 0]


def test_a_pop_group_stands_that_had_finished_nothing_by_the_round_before() -> None:
    pops = consumer_running_info(
        b'{"mqTable":{},"mqPopTable":{{"brokerName":"broker-a","queueId":-1,"topic":"orders"}:{"waitAckCount":7}},'
        b'"properties":{},"statusTable":{},"subscriptionSet":[]}'
    )
    for since, count in ((BEFORE - STANDS, 7), (BEFORE, 0), (None, 0)):
        assert _round(10, pop_unfinished_since=since).held_up_by("billing", pops, NOW) == count


def test_nobody_can_ask_clients_that_only_proxies_list() -> None:
    seen = BrokerReading(Replica("broker-a", 0, "h:1"), topics={}, committed=Answer(None, NOW))
    hangs, grpc = _round(10, pop_unfinished_since=BEFORE - STANDS), {"10.0.0.9@1@2@3xyz"}
    assert of_text(hangs.kept("billing", [seen], grpc)) == ClientStacks(
        *grpc, NOW, cannot_tell="stacks_nobody_asks", asked=False
    )
    assert hangs.kept("billing", [seen]) is None, "nobody is there"
    assert _round(10).kept("billing", [seen], grpc) is None, "nothing stands"


def test_a_group_is_asked_again_after_ten_minutes() -> None:
    for asked, ago, may in (
        (True, AGAIN_AFTER, True),
        (True, AGAIN_AFTER - timedelta(seconds=1), False),
        (False, timedelta(seconds=60), True),  # it was only said that nobody can
    ):
        before = ClientStacks(CLIENT, NOW - ago, cannot_tell="stacks_silent", asked=asked)
        looked = _round(4, client_stacks=as_text(before))
        assert looked.may_ask("billing", NOW) is may
        assert not looked.may_ask("billing", NOW), "one client of a group"


def test_what_a_group_did_stays_while_it_stands_or_was_not_seen() -> None:
    before = ClientStacks(CLIENT, NOW - timedelta(minutes=9), 1, stacks=(THREAD,))
    over = ClientStacks(CLIENT, before.taken_at)
    seen = BrokerReading(Replica("broker-a", 0, "h:1"), topics={}, committed=Answer(None, NOW))
    for consumer, masters, expected in (
        (4, [seen], before),
        (10, [seen], over),
        (10, [seen, BrokerReading(Replica("broker-b", 0, "h:2"))], before),
    ):
        assert of_text(_round(consumer, client_stacks=as_text(before)).kept("billing", masters)) == expected
    old = ClientStacks(CLIENT, NOW - AGAIN_AFTER, 1, stacks=(THREAD,))
    assert _round(10, client_stacks=as_text(old)).kept("billing", [seen]) is None
    assert _round(10, client_stacks="{of another release").kept("billing", [seen]) is None
