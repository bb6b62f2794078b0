"""Brokers on real sockets that hang, die, lie and refuse: half a snapshot that says so."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from offsetguard.collect.detail_choice import Allowance
from offsetguard.collect.manifest import GAPS_FILE_NAME, Gap
from offsetguard.collect.read_broker import believable
from offsetguard.sources.rocketmq.brokers import TopicConfig
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import BROKER_SNAPSHOTS, GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.broker import ScriptedBroker, Trouble, close, refuse, when
from offsetguard_peers.scripted.peer import Conversation, answer_bytes
from offsetguard_peers.scripted.rounds import (
    PATIENT_MS,
    QUICK_MS,
    Play,
    Rounds,
    asked,
    broker_with,
    collect,
    healthy_broker,
)

REFUSED_LOGIN = when(bool, refuse("org.apache.rocketmq.acl.common.AclException: No accessKey is configured"))
SILENT = when(bool, lambda conversation, request: None)


def close_in_mid_frame(conversation: Conversation, request: RemotingCommand) -> None:
    conversation.send(answer_bytes(request, body=b"{" * 100)[:50])
    conversation.close()


def answer_with_a_web_page(conversation: Conversation, request: RemotingCommand) -> None:
    """Any text is a broker's configuration, so that one is refused."""
    conversation.answer(request, code=1 if request.code == RequestCode.GET_BROKER_CONFIG else 0, body=b"<html>")


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        (SILENT, "timed_out"),
        (when(bool, close_in_mid_frame), "connection_lost"),
        (when(bool, lambda conversation, _: conversation.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")), "undecodable"),
        (REFUSED_LOGIN, "refused"),
    ],
)
def test_a_broker_in_trouble_costs_only_itself(trouble: Trouble, outcome: str) -> None:
    bad = healthy_broker("broker-b")
    bad.trouble = trouble
    manifest, rows = collect(healthy_broker(), bad, request_timeout_ms=QUICK_MS if trouble is SILENT else PATIENT_MS)
    assert len(bad.asked) <= 6, "after what is asked together nothing more is sent: one time-out, not one for each"
    assert manifest.unseen_broker_names == ("broker-b",)
    assert manifest.master_broker_names == ("broker-a", "broker-b")
    assert not manifest.complete
    assert {row["broker_name"] for row in rows[QUEUE_SNAPSHOTS.name]} == {"broker-a"}
    assert {(gap.broker_name, gap.outcome.value) for gap in manifest.gaps} == {("broker-b", outcome)}
    failed = getattr(manifest.requests, outcome)
    assert failed >= 1
    assert manifest.requests.asked == manifest.requests.answered + failed
    answered = {row["broker_name"]: (row["answered"], row["failure"]) for row in rows[BROKER_SNAPSHOTS.name]}
    assert answered["broker-a"] == (True, None)
    assert answered["broker-b"][0] is False
    assert answered["broker-b"][1], "the reason"


def test_an_address_that_cannot_be_one_costs_only_its_broker(play: Play) -> None:
    rounds = play(healthy_broker())
    rounds.listed |= {"broker-x": "10.0.0.1\0:80", "broker-y": "[]:1"}
    manifest = rounds.run()
    assert manifest.unseen_broker_names == ("broker-x", "broker-y")
    assert {row["broker_name"] for row in rounds.rows(QUEUE_SNAPSHOTS)} == {"broker-a"}


@pytest.mark.parametrize(
    ("allowed", "unseen"),
    [(["127.0.0.2/32"], ("broker-a",)), (["127.0.0.0/8"], ()), ([], ())],
)
def test_a_listed_broker_is_asked_only_where_its_address_is_allowed(
    allowed: list[str], unseen: tuple[str, ...]
) -> None:
    """The name server, which the configuration names, is asked in any case."""
    broker = healthy_broker()
    manifest, _ = collect(broker, allowed_addresses=allowed)
    assert manifest.unseen_broker_names == unseen
    assert bool(broker.asked) is not bool(unseen)
    assert not unseen or "allowed_addresses" in manifest.gaps[0].reason


def test_a_topic_with_settings_that_cannot_be_read_costs_only_itself() -> None:
    broker = healthy_broker()
    broker.topics["refunds"] = [(0, 5)]
    broker.perms["refunds"] = None
    manifest, rows = collect(broker)
    assert {row["topic"] for row in rows[TOPIC_QUEUE_SNAPSHOTS.name]} == {"orders"}
    (gap,) = manifest.gaps
    assert (gap.outcome.value, "'refunds' is left out: body: perm" in gap.reason) == ("undecodable", True)


def test_offsets_that_cannot_be_read_are_unknown_and_cost_only_themselves() -> None:
    broker = healthy_broker()
    broker.subscriptions = {"broken": ["orders"]}
    broker.raw_offset_keys = {"orders@broken": {0: 1.5, 1: 3}}  # type: ignore[dict-item]
    manifest, rows = collect(broker)
    (gap,) = manifest.gaps
    assert "'orders@broken' is left out: body: orders@broken: expected a 64-bit number, found 1.5" in gap.reason
    known = {(row["consumer_group"], row["queue_id"]): row for row in rows[QUEUE_SNAPSHOTS.name]}
    assert {key: row["consumer_offset"] for key, row in known.items()} == {
        ("billing", 0): 10,
        ("billing", 1): 15,
        ("broken", 0): None,
        ("broken", 1): None,
    }
    seen = {group for (group, _), row in known.items() if row["consumer_offset_read_at"] is not None}
    assert seen == {"billing"}, "of the others it is not known that they never committed"


def test_a_broker_with_more_offsets_than_fit_is_unknown_and_told() -> None:
    """Of half of its groups nobody could say that they are all."""
    flooded = healthy_broker("broker-b")
    flooded.committed |= {("orders", f"made-up-{number}"): {0: 1} for number in range(50)}
    manifest, rows = collect(healthy_broker(), flooded, collection={"entries": 20})
    assert manifest.unseen_broker_names == ("broker-b",)
    assert {row["broker_name"] for row in rows[QUEUE_SNAPSHOTS.name]} == {"broker-a"}
    told = {gap.what: gap.reason for gap in manifest.gaps}
    assert "51 pairs of topic and group" in told["all pairs of topic and group with offsets"]
    assert "clusters.main.collection.entries: 20" in told["all groups"]


def test_a_broker_may_have_what_others_leave_of_their_share() -> None:
    large = healthy_broker("broker-b")
    large.committed |= {("orders", f"group-{number}"): {0: 1} for number in range(11)}
    large.committed |= {(f"%LMQ%$chats${number}", "billing"): {0: 1} for number in range(50)}  # these get no rows
    manifest, _ = collect(healthy_broker(), large, collection={"entries": 20})
    assert manifest.complete


@pytest.mark.parametrize("first", [0, 1, 2])
def test_brokers_that_were_there_before_are_taken_before_those_that_somebody_has_made_up(first: int) -> None:
    counts = {"known": 60, "made-up": 40, "small": 10}
    order = [*list(counts)[first:], *list(counts)[:first]]

    async def admitted() -> dict[str, bool]:
        allowance = Allowance(counts, {"known"}, 80)
        return dict(
            zip(order, await asyncio.gather(*(allowance.admits(one, counts[one]) for one in order)), strict=True)
        )

    assert asyncio.run(admitted()) == {"known": True, "made-up": False, "small": True}


def test_groups_of_which_clients_make_nonsense_are_no_reason_to_give_their_broker_up() -> None:
    broker = healthy_broker()
    strange = {f"a-{number}": ["orders"] for number in range(10)}
    broker.subscriptions = {"billing": ["orders"]} | strange
    broker.trouble = when(
        lambda request: request.ext_fields.get("consumerGroup") in strange,
        lambda conversation, request: conversation.answer(request, body=b'{"connectionSet":[{}]}'),
    )
    manifest, rows = collect(broker)
    assert manifest.unseen_broker_names == ()
    clients = {row["consumer_group"]: row["online_client_count"] for row in rows[GROUP_SNAPSHOTS.name]}
    assert clients["billing"] == 1
    assert {clients[group] for group in strange} == {None}


def test_a_broker_whose_bodies_are_nonsense_is_given_up() -> None:
    bad = healthy_broker("broker-b")
    bad.trouble = when(bool, answer_with_a_web_page)
    manifest, _ = collect(healthy_broker(), bad)
    assert manifest.unseen_broker_names == ("broker-b",)
    assert manifest.requests.undecodable >= 3


def test_a_refused_login_is_one_gap_that_names_the_connection_to_correct() -> None:
    broker = healthy_broker()
    broker.trouble = REFUSED_LOGIN
    manifest, _ = collect(broker, connection="rocketmq_main")
    (login,) = [gap for gap in manifest.gaps if not gap.what.endswith("not sent")]
    assert "Airflow connection 'rocketmq_main'" in login.reason
    assert "clusters.main.connection" in login.reason


def test_a_broker_that_falls_silent_gives_a_partial_snapshot_at_the_deadline() -> None:
    broker = healthy_broker()
    broker.topics |= {f"topic-{number}": [(0, 1)] for number in range(1_000)}
    broker.trouble = when(lambda _: asked(broker, RequestCode.GET_TOPIC_STATS_INFO) > 3, lambda *_: None)
    manifest, rows = collect(broker, deadline_s=6.0)
    assert any("deadline" in gap.reason for gap in manifest.gaps)
    assert not manifest.complete
    assert rows[TOPIC_QUEUE_SNAPSHOTS.name]


def test_a_topic_with_impossible_queues_is_left_out_and_told() -> None:
    broker = healthy_broker()
    broker.read_queue_nums = {"orders": 2**40}
    manifest, rows = collect(broker)
    assert rows[TOPIC_QUEUE_SNAPSHOTS.name] == []
    assert any("1099511627776 read queues" in gap.reason for gap in manifest.gaps)


def test_topics_that_are_possible_each_but_not_together_are_left_out_largest_first() -> None:
    a_topic = TopicConfig("t", 8, 8, perm=6, order=False)
    topics = {f"topic-{number}": replace(a_topic, read_queue_nums=8_192 - number) for number in range(100)}
    kept = believable({**topics, "small": a_topic})
    assert "small" in kept
    assert sum(config.read_queue_nums for config in kept.values()) <= 500_000
    assert max(config.read_queue_nums for config in kept.values()) < 8_192 - (100 - len(kept))


def test_what_does_not_fit_a_column_is_kept_beside_and_stops_nothing() -> None:
    broker = healthy_broker()
    broker.topics["wide"] = [(0, 1)] * 3
    broker.write_queue_nums = {"wide": 2**40}
    broker.raw_offset_keys = {"no group": {0: 1}}
    _, rows = collect(broker)
    assert {row["topic"] for row in rows["topic_settings"]} == {"orders", "OFFSET_MOVED_EVENT"}
    kept = {row["source"]: row["reason"] for row in rows["undecodable_records"]}
    assert "beyond 32 bits" in kept["topic_settings"]
    assert kept["GET_ALL_CONSUMER_OFFSET of broker-a"] == "the key is not topic@group"


def test_a_broker_that_has_just_booted_is_asked_for_its_figures_again() -> None:
    broker, code = healthy_broker(), RequestCode.GET_BROKER_RUNTIME_INFO
    no_statistics_yet = refuse("java.util.NoSuchElementException, java.util.LinkedList.getLast")
    broker.trouble = when(lambda request: request.code == code and asked(broker, code) == 1, no_statistics_yet)
    manifest, rows = collect(broker)
    assert manifest.complete
    assert rows[BROKER_SNAPSHOTS.name][0]["version"] == "V4_9_7"


def dies_after(broker: ScriptedBroker, code: RequestCode, count: int) -> None:
    broker.trouble = when(lambda _: asked(broker, code) > count, close)


def named_gaps(rounds: Rounds) -> list[Gap]:
    lines = (rounds.folder / GAPS_FILE_NAME).read_text(encoding="utf-8").splitlines()
    return [TypeAdapter(Gap).validate_json(line) for line in lines]


def test_a_broker_that_dies_in_the_middle_leaves_what_it_said_and_everything_missing_is_named(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.topics |= {f"topic-{number}": [(0, 1)] for number in range(300)}
    dies_after(broker, RequestCode.GET_TOPIC_STATS_INFO, 3)
    rounds = play(broker)
    manifest = rounds.run()
    assert manifest.unseen_broker_names == (), "its committed offsets were seen"
    named, rows = named_gaps(rounds), rounds.rows(TOPIC_QUEUE_SNAPSHOTS)
    unseen = {row["topic"] for row in rows if row["read_at"] is None}
    assert 250 < len(unseen) < len(rows) == 301
    assert all(any(f"topic={topic})" in gap.what for gap in named) for topic in unseen)
    assert len(manifest.gaps) == manifest.gap_count < 20, "the manifest sums up"
    assert any("further requests, not sent" in gap.what for gap in manifest.gaps)
    assert sum(manifest.gap_kinds.values()) == len(named)
    assert all(gap.reason and gap.broker_name == "broker-a" for gap in named)


def test_a_broker_that_dies_early_leaves_a_list_of_everything_that_it_was_not_asked_any_more(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.groups = {f"group-{number}" for number in range(40)}
    dies_after(broker, RequestCode.GET_ALL_CONSUMER_OFFSET, 0)
    rounds = play(broker)
    rounds.run()
    named = [gap.what.removesuffix(", not sent") for gap in named_gaps(rounds)]
    expected = {f"GET_CONSUMER_CONNECTION_LIST(consumerGroup={group})" for group in (*broker.groups, "billing")}
    assert expected | {"GET_ALL_CONSUMER_OFFSET()", "GET_TOPIC_STATS_INFO(topic=orders)"} <= set(named)
    assert len(named) == len(set(named)), "each once"


def test_a_complete_round_has_no_file_of_gaps(play: Play) -> None:
    rounds = play(broker_with(10, 10))
    rounds.run()
    assert not (rounds.folder / GAPS_FILE_NAME).exists()
