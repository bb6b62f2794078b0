"""What lands of a round besides offsets, and what it compares with the round before; against scripted brokers."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsetguard import tables
from offsetguard_peers.scripted.broker import refuse, when
from offsetguard_peers.scripted.rounds import Play, broker_with


def test_retry_and_dead_letter_topics_are_counted_and_compared_with_the_round_before(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.topics |= {"%RETRY%billing": [(5, 9)], "%DLQ%billing": [(0, 2)], "%RETRY%billing_orders": [(0, 30)]}
    broker.committed["%RETRY%billing_orders", "billing"] = {0: 30}
    rounds = play(broker)
    rounds.run()
    group = rounds.group("billing")
    assert (group["retry_message_count"], group["retry_max_offset"], group["retry_growth"]) == (34, 39, None)
    assert (group["dead_letter_message_count"], group["dead_letter_growth"]) == (2, None)
    assert rounds.group("TOOLS_CONSUMER")["retry_message_count"] == 0, "nothing was ever sent back"
    broker.topics["%RETRY%billing"] = [(9, 16)]
    rounds.run()
    group = rounds.group("billing")
    assert (group["retry_message_count"], group["retry_growth"], group["dead_letter_growth"]) == (37, 7, 0)
    broker.topics["%RETRY%billing"] = [(0, 1)]  # recreated
    rounds.run()
    assert rounds.group("billing")["retry_growth"] is None


def test_a_backlog_of_which_a_broker_was_not_seen_is_unknown_and_not_less(play: Play) -> None:
    first, second = broker_with(10, 10), broker_with(10, 10, name="broker-b")
    for broker in (first, second):
        broker.topics["%DLQ%billing"] = [(0, 3)]
    rounds = play(first, second)
    rounds.run()
    assert rounds.group("billing")["dead_letter_message_count"] == 6
    second.trouble = when(lambda one: one.ext_fields.get("topic") == "%DLQ%billing", refuse("no memory"))
    rounds.run()
    assert rounds.group("billing")["dead_letter_message_count"] is None
    assert rounds.group("billing")["dead_letter_growth"] is None


def test_masters_that_list_other_clients_are_told_unless_they_need_not_know_them(play: Play) -> None:
    """A client sends heartbeats to the brokers that have its topics, and to no others."""
    first, second, third = (broker_with(10, 10, name=f"broker-{letter}") for letter in "abc")
    first.topics["reports"] = [(0, 1)]
    first.subscriptions = {"billing": ["orders"], "audit": ["orders"], "report": ["reports"]}
    second.subscriptions = {"billing": ["orders"], "audit": ["orders"]}
    third.subscriptions = {"billing": ["orders"]}
    rounds = play(first, second, third)
    rounds.run()
    differ = {row["consumer_group"]: row["members_differ"] for row in rounds.rows(tables.GROUP_SNAPSHOTS)}
    assert differ["billing"] is False
    assert differ["audit"] is True, "broker-c has the topic and does not know the client"
    assert differ["report"] is None, "only broker-a has the topic"
    assert rounds.group("billing")["members_differ_since"] is None
    first_seen = rounds.group("audit")["members_differ_since"]
    assert [one.rpartition(" ")[2] for one in rounds.group("audit")["missing_members"]] == ["broker-c"]
    rounds.run()
    assert rounds.group("audit")["members_differ_since"] == first_seen
    third.subscriptions["audit"] = ["orders"]
    rounds.run()
    assert rounds.group("audit")["members_differ_since"] is None


def test_two_masters_are_enough_to_see_that_they_list_other_clients(play: Play) -> None:
    first, second = broker_with(10, 10), broker_with(10, 10, name="broker-b")
    first.subscriptions = {"billing": ["orders"], "audit": ["orders"]}
    second.subscriptions = {"billing": ["orders"]}
    rounds = play(first, second)
    rounds.run()
    differ = {row["consumer_group"]: row["members_differ"] for row in rounds.rows(tables.GROUP_SNAPSHOTS)}
    assert (differ["billing"], differ["audit"]) == (False, True)


def test_a_broker_that_is_listed_under_another_address_is_reached_through_the_map(play: Play) -> None:
    rounds = play(broker_with(10, 10))
    reachable, rounds.listed["broker-a"] = rounds.listed["broker-a"], "172.17.0.3:10911"
    manifest = rounds.run(address_map={"172.17.0.3:10911": reachable, "172.17.0.4:10911": "10.0.0.1:10911"})
    assert manifest.complete
    (broker,) = rounds.rows(tables.BROKER_SNAPSHOTS)
    assert (broker["address"], broker["answered"]) == ("172.17.0.3:10911", True)
    (unmatched,) = [one for one in manifest.not_asked if "address_map" in one.what]
    assert "172.17.0.4:10911" in unmatched.what
    manifest = rounds.run(address_map={"172.17.0.3:10911": "127.0.0.1:9"})
    (gap,) = [gap for gap in manifest.gaps if not gap.what.endswith("not sent")]
    assert gap.address == "172.17.0.3:10911"
    for words in ("127.0.0.1:9: connection refused", "listed as 172.17.0.3:10911", "clusters.main.address_map"):
        assert words in gap.reason


def test_topics_that_the_broker_calls_its_own_are_told_apart(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.topics["FUTURE_SYSTEM_TOPIC"] = [(0, 9)]
    broker.committed["FUTURE_SYSTEM_TOPIC", "billing"] = {0: 1}
    broker.system_topics.add("FUTURE_SYSTEM_TOPIC")
    rounds = play(broker)
    rounds.run()
    kinds = {row["topic"]: row["topic_kind"] for row in rounds.rows(tables.TOPIC_SETTINGS)}
    assert (kinds["FUTURE_SYSTEM_TOPIC"], kinds["orders"]) == ("system", "normal")
    assert {row["topic"] for row in rounds.rows(tables.QUEUE_SNAPSHOTS)} == {"orders"}


def test_logs_land_with_the_round_and_are_read_once(play: Play, tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    line = (
        "2026-11-21 18:38:00 WARN PullMessageThread_1 - PULL_OFFSET_MOVED:correction offset. topic=orders,"
        " groupId=billing, requestOffset=1, newOffset=500, suggestBrokerId=0\n"
    )
    log.write_text(line)
    source = {"name": "broker-a", "files": [str(log)], "broker_name": "broker-a"}
    rounds = play(broker_with(10, 10), logs=[source])
    manifest = rounds.run()
    (event,) = rounds.rows(tables.LOG_EVENTS)
    assert (event["topic"], event["consumer_group"], event["broker_name"]) == ("orders", "billing", "broker-a")
    (move,) = rounds.rows(tables.OFFSET_MOVES)
    assert (move["origin"], move["requested_offset"], move["corrected_offset"]) == ("log", 1, 500)
    assert move["moved_at"] == datetime(2026, 11, 21, 10, 38, tzinfo=UTC), "brokers write GMT+8"
    assert manifest.log_cursors[0].next_position == len(line)
    with log.open("a") as appended:
        appended.write(line.replace("=500", "=600"))
    manifest = rounds.run()
    assert [row["corrected_offset"] for row in rounds.rows(tables.OFFSET_MOVES)] == [600]
    assert manifest.log_cursors[0].next_position == 2 * len(line)
    manifest = rounds.run(logs=[{**source, "name": "gone", "files": [str(tmp_path / "nowhere" / "*.log")]}])
    assert any(gap.what == "log gone" for gap in manifest.gaps)


def test_an_offset_that_went_back_between_two_rounds_is_a_move(play: Play) -> None:
    broker = broker_with(900, 1_000)
    rounds = play(broker)
    rounds.run()
    assert rounds.rows(tables.OFFSET_MOVES) == [], "nothing to compare with"
    broker.committed["orders", "billing"] = {0: 100}
    rounds.run()
    (move,) = rounds.rows(tables.OFFSET_MOVES)
    assert (move["origin"], move["requested_offset"], move["corrected_offset"]) == ("snapshot", 900, 100)
    assert move["source"] == "broker-a/orders/0/billing"
    assert move["nearest_start_at"] == datetime(2026, 11, 20, 22, 45, 30, tzinfo=UTC), "the broker's own boot time"
    rounds.run()
    assert rounds.rows(tables.OFFSET_MOVES) == []


@pytest.mark.parametrize("name", ["\u202ebilling", "=HYPERLINK(1)", "../../etc/passwd", "a" * 255, "<b>&", "%s{0}\n"])
def test_hostile_names_come_back_as_they_are(play: Play, name: str) -> None:
    broker = broker_with(4, 10, group=name)
    broker.subscriptions = {name: ["orders"]}
    rounds = play(broker)
    rounds.run()
    assert rounds.queue(name)["consumer_offset"] == 4
    assert rounds.group(name)["suspect_reason"] == "waiting"
    assert json.loads((rounds.folder / "manifest.json").read_text())["cluster"] == "main"
    assert {path.name for path in rounds.landing.iterdir()} == {"main"}
