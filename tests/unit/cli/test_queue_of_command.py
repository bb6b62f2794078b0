"""`offsetguard queue-of` as people and scripts meet it."""

import json
from typing import Any

import pytest
from click.testing import Result

from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.scripted.broker import ScriptedBroker

OFFLINE = ("--queues", "4", "--brokers", "broker-b,broker-a")


BILLING = {("orders", "billing"): {0: 5, 1: 10}}


def asked(key: str, *more: str, topic: str = "orders", stdin: str | None = None) -> Result:
    """Ask a cluster: key `a` (97) goes to the second of four queues, in which billing stands at 10 of 20,000."""
    ends = {0: [(0, 5), (0, 20_000)], 1: [(0, 5), (0, 5)]}
    done: dict[int, dict[int, int]] = {0: {0: 5, 1: 10}, 1: {0: 5, 1: 5}}
    brokers = tuple(
        ScriptedBroker(name, topics={"orders": ends[place]}, committed={("orders", "billing"): done[place]})
        for place, name in enumerate(("broker-a", "broker-b"))
    )
    return run("queue-of", key, "--topic", topic, "--namesrv", "NAMESRV", *more, stdin=stdin, brokers=brokers)


def line_of(result: Result) -> dict[str, Any]:
    (line,) = json_lines(result)
    return line


def test_a_key_gives_hash_broker_and_queue_without_a_cluster() -> None:
    """708276994 % 8 is 2: the third queue of the first broker, whatever the order on the command line."""
    result = run("queue-of", "order-4711", "--topic", "orders", *OFFLINE)
    assert result.exit_code == 0, result.output
    assert line_of(result) == {
        "key": "order-4711",
        "topic": "orders",
        "hash": 708_276_994,
        "broker_name": "broker-a",
        "queue_id": 2,
        "position": 2,
        "queue_count": 8,
    }


def test_lines_that_are_wrong_are_answered_in_their_place() -> None:
    given = [
        ({"id": 1, "key": "a"}, ""),
        ({"id": 2}, "field key"),
        ({"id": 3, "key": 4711}, "field key"),
        ("b", ""),
        ([1], "no JSON object and no text"),
        ({"id": 4, "key": "c", "topic": ""}, "field topic"),
        ({"id": 5, "key": "a", "topic": "payments"}, ""),
    ]
    text = "{\n" + "".join(f"{json.dumps(line)}\n" for line, _ in given)
    result = run("queue-of", "--topic", "orders", *OFFLINE, stdin=text)
    first, *found = json_lines(result)
    assert (result.exit_code, first["error"].partition(":")[0]) == (1, "no JSON")
    for (line, error), answer in zip(given, found, strict=True):
        assert answer.get("id") == (line.get("id") if isinstance(line, dict) else None)
        assert answer.get("error", "").partition(":")[0] == error
    assert found[-1]["topic"] == "payments"


def test_name_servers_know_the_queues_and_brokers_how_they_stand() -> None:
    line = line_of(asked("a"))
    assert (line["broker_name"], line["queue_id"], line["queue_count"]) == ("broker-a", 1, 4)
    assert (line["min_offset"], line["max_offset"], line["broker_answered"]) == (0, 20_000, True)


def test_a_group_tells_why_the_key_is_late() -> None:
    line = line_of(asked("a", "--group", "billing", "--samples", "2", "--every", "50ms"))
    assert (line["consumer_group"], line["lag"], line["consumer_offset"]) == ("billing", 19_990, 10)
    assert line["state"] != "OK"
    assert line["findings"], "the group is offline and far behind"
    assert all(one["cause"] and one["do_next"] for one in line["findings"])


def test_a_queue_in_which_everything_was_consumed_is_ok_and_an_unknown_group_gets_a_suggestion() -> None:
    healthy = line_of(asked("b", "--samples", "1", "--group", "billing"))
    assert (healthy["broker_name"], healthy["queue_id"], healthy["state"]) == ("broker-b", 0, "OK")
    assert (healthy["lag"], healthy["findings"]) == (0, [])
    unknown = asked("b", "--samples", "1", "--group", "biling")
    assert unknown.exit_code == 2
    assert "--group: there is no group 'biling'; did you mean 'billing'?" in unknown.stderr


@pytest.mark.parametrize("samples", ["1", "2"])
def test_a_finding_is_as_severe_as_the_judge_says(samples: str) -> None:
    looks = ("--samples", samples, "--every", "10ms", "--group", "billing")
    (of_key,) = line_of(asked("a", *looks))["findings"]
    brokers = (ScriptedBroker("broker-a", topics={"orders": [(0, 5), (0, 20_000)]}, committed=BILLING),)
    (judged,) = json_lines(run("check", "--namesrv", "NAMESRV", *looks, "--format", "json", brokers=brokers))
    assert (of_key["rule"], of_key["severity"]) == (judged["rule"], judged["severity"])
    assert of_key["severity"] == "warning", "19,990 wait, 10,000 are allowed, and one look shows it"


def test_what_waits_and_what_lies_beyond_the_end_are_two_figures() -> None:
    """In the key's queue 7 are committed beyond its end, in the other queue of the topic 15 wait."""
    broker = ScriptedBroker(
        "broker-a",
        topics={"orders": [(0, 20), (0, 5)]},
        committed={("orders", "billing"): {0: 5, 1: 12}},
    )
    looked = ("--topic", "orders", "--namesrv", "NAMESRV", "--group", "billing", "--samples", "1")
    line = line_of(run("queue-of", "a", *looked, brokers=(broker,)))
    assert (line["queue_id"], line["lag"], line["beyond_end"]) == (1, -7, 7)
    assert (line["group_lag"], line["group_beyond_end"]) == (15, 7)
    shown = run("queue-of", "a", *looked, "--format", "table", brokers=(broker,)).stdout
    assert "lag 0 (7 beyond the end) in this queue, 15 (7 beyond the end) in all of the topic" in shown


def test_people_read_sentences() -> None:
    shown = asked("a", "--group", "billing", "--samples", "1", "--format", "table").stdout
    assert all(text in shown for text in ("orders broker-a/1", "lag 19,990", "Do next:"))


def test_a_topic_that_does_not_exist_is_a_wrong_argument_or_an_error_of_its_line() -> None:
    misspelt = asked("a", "--group", "billing", topic="ordrs")
    assert (misspelt.exit_code, misspelt.stdout) == (2, "")
    assert "--topic: " in misspelt.stderr
    assert "did you mean 'orders'?" in " ".join(misspelt.stderr.split())
    read = asked("-", topic="ordrs", stdin='"a"\n')
    assert (read.exit_code, line_of(read)["error"].startswith("field topic: ")) == (1, True)
