"""Every kind of line, from real logs and from the texts of RocketMQ's classes, and lines that only look like one."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from offsetguard.sources.logs.events import LogEvent, Skipped, Unreadable, event_row, message_of, read_records
from offsetguard.sources.logs.matching import ALL, PATTERNS
from offsetguard.tables import LOG_EVENTS
from offsetguard_peers.cases.running import for_each, read_cases

CASES = read_cases(Path(__file__).parent / "lines.yml")
GMT_8 = timezone(timedelta(hours=8))


def parsed(line: str) -> list[LogEvent | Unreadable]:
    return [one for one in read_records([line.encode() + b"\n"], GMT_8) if not isinstance(one, Skipped)]


@for_each("case", CASES, name_of=lambda case: case["kind"])
def test_a_line_is_recognised_with_its_fields(case):
    outcomes = parsed(case["line"])
    if case["kind"] is None:
        assert outcomes == []
    elif case["kind"] == "unreadable":
        (outcome,) = outcomes
        assert isinstance(outcome, Unreadable)
        assert case["line"].startswith(outcome.text[:50])
    else:
        (outcome,) = outcomes
        assert isinstance(outcome, LogEvent)
        assert outcome.kind == case["kind"]
        assert {name: value for name, value in outcome.fields.items() if value is not None} == case["fields"]


@for_each(
    "head, hour",
    [  # what stands before a message in logs of applications and of containers, and the hour in UTC that it says
        ("2022-10-14T10:19:19.123Z  WARN 1 --- [RebalanceService] RocketmqClient : ", 10),  # Spring Boot 3
        ("2022-10-14T10:19:19.123+08:00  WARN 1 --- [RebalanceService] RocketmqClient : ", 2),
        ("2022-10-14T10:19:19.123456789Z 2022-10-14 10:19:19 WARN PullMessageThread_1 - ", 10),  # kubectl logs
        ("2022-10-14 10:19:19.123 [RebalanceService] WARN  RocketmqClient:115 - ", 2),
        ("WARN  2022-10-14 10:19:19.123 [RebalanceService] RocketmqClient - ", 2),
        ("[WARN ] 2022-10-14 10:19:19.123 [RebalanceService] RocketmqClient - ", 2),
        ("2022-10-14 10:19:19|WARN|RebalanceService|RocketmqClient|", 2),
        ("broker_1  | 2022-10-14 10:19:19 WARN PullMessageThread_1 - ", 2),  # docker-compose logs
    ],
    name_of=lambda one: one[0],
)
def test_what_stands_before_a_message_says_when_it_was_written(head, hour):
    (outcome,) = parsed(head + "the consumer's group info not exist, group: g")
    assert isinstance(outcome, LogEvent)
    assert (outcome.kind, outcome.at.replace(microsecond=0)) == (
        "group_not_online",
        datetime(2022, 10, 14, hour, 19, 19, tzinfo=UTC),
    )


REFUSED = {
    "message": "execute the pull request exception",
    "stack_trace": "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 26  DESC: subscription group [g] "
    "does not exist, See http://rocketmq.apache.org",
}


@for_each(
    "line, kind, level",
    [  # objects, as encoders for JSON write them, and Docker
        (
            {"@timestamp": "2022-10-14T10:19:19.123+08:00", "level": "WARN", **REFUSED},
            "pull_refused",
            "WARN",
        ),
        (
            {"msg": "the consumer's group info not exist, group: g", "time": "2022-10-14 10:19:19,123"},
            "group_not_online",
            None,
        ),
        (
            {
                "log": "2022-10-14 10:19:19 WARN PullMessageThread_1 - the consumer's group info not exist, group: g",
                "stream": "stdout",
                "time": "2022-10-14T02:19:19.123456789Z",
            },
            "group_not_online",
            "WARN",
        ),
    ],
    name_of=lambda one: one[1],
)
def test_a_line_that_is_an_object_is_read_by_its_fields(line, kind, level):
    (outcome,) = parsed(json.dumps(line))
    assert isinstance(outcome, LogEvent)
    assert (outcome.kind, outcome.level, outcome.fields["consumer_group"]) == (kind, level, "g")
    assert outcome.at.replace(microsecond=0) == datetime(2022, 10, 14, 2, 19, 19, tzinfo=UTC)


def test_what_only_looks_like_such_an_object_is_unreadable_or_goes_on_with_the_record_before():
    broken = '{"time":"2022-10-14T10:19:19Z","message":' + "[" * 3000
    text = f'2022-10-14 10:19:19 WARN main - a remark\n{{"without": "a time"}}\n{broken}'
    (first, second) = read_records(text.encode(), GMT_8)
    assert isinstance(first, Skipped)
    assert first.line_count == 2
    assert isinstance(second, Unreadable)


@for_each("pattern", PATTERNS, name_of=lambda one: one.kind)
def test_every_pattern_has_a_line(pattern):
    messages = [message_of(case["line"]) for case in CASES]
    assert any(found.pattern is pattern for message in messages if message and (found := ALL.recognise(message)))


def test_the_cheap_test_before_a_regex_never_hides_a_match():
    for case in CASES:
        message = message_of(case["line"]) or ""
        for pattern in PATTERNS:
            if re.search(pattern.regex, message):
                assert pattern.must_contain in message.split("\n")[0]


def test_looking_by_the_first_character_finds_what_trying_all_patterns_finds():
    for case in CASES:
        message = message_of(case["line"]) or ""
        first = next((pattern for pattern in PATTERNS if re.search(pattern.regex, message)), None)
        found = ALL.recognise(message)
        assert (found.pattern if found else None) is first


def test_times_are_utc_whatever_the_layout():
    lines = [
        "2026-11-21 06:45:30 WARN PullMessageThread_3 - the consumer's group info not exist, group: G1",
        "2026-11-21 06:45:30 - [WATERMARK] Pull Queue Size: 0 SlowTimeMills: 0",
        "2026-11-21 06:45:30,250 INFO RocketmqClient - the consumer [G1] shutdown OK",
        "2026-11-21 06:45:30.250 INFO  [1] [main] [a.b.C#?:?] - the consumer [G1] shutdown OK",
    ]
    at = datetime(2026, 11, 20, 22, 45, 30, tzinfo=UTC)
    half = timedelta(milliseconds=250)
    assert [outcome.at for line in lines for outcome in parsed(line)] == [at, at, at + half, at + half]


def test_a_row_has_the_columns_of_the_table_and_the_names_that_the_line_gives():
    (event,) = parsed(
        "2026-11-21 15:00:00 WARN PullMessageThread_17 - [NOTIFYME]update consumer offset less than store. "
        "clientHost=10.0.0.9:1, key=T1@G1, queueId=3, requestOffset=788, storeOffset=789"
    )
    row = event_row(event, "main", datetime(2026, 11, 21, 7, tzinfo=UTC))
    assert list(row) == [column.name for column in LOG_EVENTS.columns]
    assert (row["topic"], row["consumer_group"], row["queue_id"], row["client_id"]) == ("T1", "G1", 3, "10.0.0.9:1")
    assert '"stored_offset": 789' in row["fields_json"]


def test_no_field_is_called_like_a_part_of_an_event():
    reserved = {"kind", "at", "source_line", "file", "level", "thread", "source", "position"}
    assert not [
        pattern.kind for pattern in PATTERNS if reserved & {field.name for field in (*pattern.fields, *pattern.parts)}
    ]
