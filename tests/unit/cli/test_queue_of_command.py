"""`offsetguard queue-of` as people and scripts meet it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster

OFFLINE = ("--queues", "4", "--brokers", "broker-b,broker-a")


def run(*arguments: str, stdin: str = "", brokers: tuple[ScriptedBroker, ...] = ()) -> Result:
    async def start() -> Result:
        async with scripted_cluster(*brokers) as (name_server, _):
            real = ["queue-of", *(argument.replace("NAMESRV", name_server) for argument in arguments)]
            return await asyncio.to_thread(lambda: CliRunner().invoke(offsetguard, real, input=stdin))

    return asyncio.run(start())


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_key_gives_hash_broker_and_queue_without_a_cluster() -> None:
    """708276994 % 8 is 2: the third queue of the first broker, whatever the order on the command line."""
    result = run("order-4711", "--topic", "orders", *OFFLINE)
    (line,) = lines(result)
    assert result.exit_code == 0, result.output
    assert {name: line[name] for name in ("key", "topic", "hash", "broker_name", "queue_id")} == {
        "key": "order-4711",
        "topic": "orders",
        "hash": 708_276_994,
        "broker_name": "broker-a",
        "queue_id": 2,
    }


def test_lines_that_are_wrong_are_answered_in_their_place() -> None:
    given = [
        json.dumps({"id": 1, "key": "a"}),
        json.dumps({"id": 2}),
        json.dumps({"id": 3, "key": 4711}),
        json.dumps("b"),
        "{",
        json.dumps([1]),
        json.dumps({"id": 4, "key": "c", "topic": ""}),
        json.dumps({"id": 5, "key": "a", "topic": "payments"}),
    ]
    result = run("--topic", "orders", *OFFLINE, stdin="\n".join(given) + "\n")
    found = lines(result)
    assert result.exit_code == 1
    assert [one.get("id") for one in found] == [1, 2, 3, None, None, None, 4, 5]
    assert [one.get("error", "").partition(":")[0] for one in found] == [
        *("", "field key", "field key", "", "no JSON", "no JSON object and no text", "field topic", ""),
    ]
    assert found[-1]["topic"] == "payments"


def two_brokers() -> tuple[ScriptedBroker, ...]:
    """Key `a` (97) goes to the second of four queues: broker-a/1, in which billing stands at 10 of 20,000."""
    ends = {0: [(0, 5), (0, 20_000)], 1: [(0, 5), (0, 5)]}
    done: dict[int, dict[int, int]] = {0: {0: 5, 1: 10}, 1: {0: 5, 1: 5}}
    return tuple(
        ScriptedBroker(name, topics={"orders": ends[place]}, committed={("orders", "billing"): done[place]})
        for place, name in enumerate(("broker-a", "broker-b"))
    )


def test_name_servers_know_the_queues_and_brokers_how_they_stand() -> None:
    (line,) = lines(run("a", "--topic", "orders", "--namesrv", "NAMESRV", brokers=two_brokers()))
    assert (line["broker_name"], line["queue_id"], line["queue_count"]) == ("broker-a", 1, 4)
    assert (line["min_offset"], line["max_offset"], line["broker_answered"]) == (0, 20_000, True)


def test_a_group_tells_why_the_key_is_late() -> None:
    result = run(
        *("a", "--topic", "orders", "--namesrv", "NAMESRV", "--group", "billing", "--samples", "2", "--every", "50ms"),
        brokers=two_brokers(),
    )
    (line,) = lines(result)
    assert (line["consumer_group"], line["lag"], line["consumer_offset"]) == ("billing", 19_990, 10)
    assert line["state"] != "OK"
    assert line["findings"], "the group is offline and far behind"
    assert all(one["cause"] and one["do_next"] for one in line["findings"])


def test_a_queue_in_which_everything_was_consumed_is_ok_and_an_unknown_group_is_said_to_be() -> None:
    arguments = ("b", "--topic", "orders", "--namesrv", "NAMESRV", "--samples", "1")
    (healthy,) = lines(run(*arguments, "--group", "billing", brokers=two_brokers()))
    assert (healthy["broker_name"], healthy["queue_id"], healthy["state"]) == ("broker-b", 0, "OK")
    assert (healthy["lag"], healthy["findings"]) == (0, [])
    (unknown,) = lines(run(*arguments, "--group", "nobody", brokers=two_brokers()))
    assert (unknown["state"], unknown["lag"]) == (None, None)
    assert "no offset" in unknown["reason"]


def test_people_read_sentences() -> None:
    shown = run(
        *("a", "--topic", "orders", "--namesrv", "NAMESRV", "--group", "billing", "--samples", "1"),
        *("--format", "table"),
        brokers=two_brokers(),
    ).stdout
    assert "orders broker-a/1" in shown
    assert "lag 19,990" in shown
    assert "Do next:" in shown


def test_a_topic_that_does_not_exist_is_an_error_of_its_line() -> None:
    result = run("a", "--topic", "nothing", "--namesrv", "NAMESRV", "--group", "billing", brokers=two_brokers())
    (line,) = lines(result)
    assert result.exit_code == 1
    assert line["error"].startswith("field topic: ")
    assert "nothing" in line["error"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["k", "--topic", "t"], "either --namesrv HOST:PORT, or --queues N"),
        (["k", "--topic", "t", "--queues", "4"], "belong together"),
        (["k", "--topic", "t", "--queues", "4", "--brokers", " , "], "belong together"),
        (["k", "--topic", "t", "--queues", "4", "--brokers", "a", "--namesrv", "h:1"], "either --namesrv"),
        (["k", *OFFLINE], "--topic: say which topic"),
        (["k", "--topic", "t", *OFFLINE, "--group", "g"], "--group needs a cluster"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(offsetguard, ["queue-of", *arguments])
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
