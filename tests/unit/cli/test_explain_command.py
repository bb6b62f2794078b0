"""`offsetguard explain`: one answer per line, errors in their places, and the pipeline's own judgement and decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.model.views import NotificationReason

SAMPLES = [{"at_ms": minute * 60_000, "consumer_offset": 10, "max_offset": 900 + minute * 1000} for minute in range(30)]
QUEUE = {"id": "q1", "now_ms": 29 * 60_000, "samples": SAMPLES}
ANSWER = [
    "id",
    "state",
    "rule",
    "reason",
    "lag",
    "effective_lag",
    "lost",
    "lag_ms",
    "samples_used",
    "drain_ms",
    "loss_ms",
]


def run(command: str, *lines: object, output_format: str = "json") -> Result:
    text = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    return CliRunner().invoke(offsetguard, ["explain", command, "--format", output_format], input=text)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_queue_gets_its_state_the_rule_that_fired_and_the_figures():
    result = run("queue", QUEUE | {"online_clients": 0})
    (answer,) = answers(result)
    assert list(answer) == ANSWER
    assert answer | {"reason": ""} == {
        "id": "q1",
        "state": "STOPPED",
        "rule": "stopped",
        "reason": "",
        "lag": 29_890,
        "effective_lag": 29_890,
        "lost": None,  # the oldest message is not known
        "lag_ms": 29 * 60_000 + 53_400,
        "samples_used": 30,
        "drain_ms": None,
        "loss_ms": None,
    }
    assert result.exit_code == 0


def test_null_is_as_good_as_a_field_that_is_missing():
    nothing = dict.fromkeys(("online_clients", "message_model", "orderly", "subscribed", "policy"))
    samples = [dict.fromkeys(("min_offset", "pull_offset", "last_timestamp_ms")) | one for one in SAMPLES]
    assert run("queue", QUEUE | nothing | {"samples": samples}).stdout == run("queue", QUEUE).stdout


def test_the_policy_is_the_default_but_for_what_is_given():
    states = answers(
        run("queue", QUEUE, QUEUE | {"policy": {"allowed_lag": 30_000}}, QUEUE | {"policy": {"window_ms": 60_000}})
    )
    assert [one["state"] for one in states] == ["STALLED", "OK", "OK"]
    assert [one["samples_used"] for one in states] == [30, 30, 2]


def test_a_field_of_a_later_release_is_no_mistake():
    assert run("queue", QUEUE | {"colour": 1, "policy": {"colour": 1}}).exit_code == 0


WRONG_LINES = [
    ("nonsense", "field (line): is no JSON"),
    ("[" * 100_000, "field (line): is no JSON"),
    ('{"id": "q1", "now_ms": NaN}', "field (line): is no JSON"),
    ([1, 2], "field (line): is no JSON object but [1, 2]"),
    ({"id": "q1", "samples": []}, "field now_ms: is missing"),
    ({"id": "q1", "now_ms": 1}, "field samples: is missing"),
    (QUEUE | {"now_ms": "soon"}, 'field now_ms: is "soon": write a whole number'),
    (QUEUE | {"now_ms": 10**18}, "field now_ms: is 1000000000000000000: it must be from 0 to"),
    (QUEUE | {"samples": [{"consumer_offset": 1}]}, "field samples[0].at_ms: is missing"),
    (QUEUE | {"samples": [*SAMPLES, 7]}, "field samples[30]: is no JSON object but 7"),
    (QUEUE | {"samples": [{"at_ms": 1, "max_offset": -1}]}, "field samples[0].max_offset: is -1"),
    (QUEUE | {"samples": [{"at_ms": 1, "max_offset": True}]}, "field samples[0].max_offset: is true"),
    (QUEUE | {"samples": [{"at_ms": 1, "max_offset": 1.5}]}, "field samples[0].max_offset: is 1.5"),
    (QUEUE | {"online_clients": "two"}, 'field online_clients: is "two"'),
    (QUEUE | {"message_model": "pop"}, 'field message_model: is "pop": write clustering or broadcasting'),
    (QUEUE | {"subscribed": 1}, "field subscribed: is 1: write true, false or null"),
    (QUEUE | {"policy": {"window_ms": 0}}, "field policy.window_ms: is 0"),
    (QUEUE | {"policy": 3}, "field policy: is no JSON object but 3"),
]


def test_a_line_that_is_wrong_names_the_field_in_its_place():
    result = run("queue", QUEUE, *(line for line, _ in WRONG_LINES), QUEUE)
    first, *wrong, last = answers(result)
    assert first["state"] == last["state"] == "STALLED"
    assert result.exit_code == 1
    for (line, error), answer in zip(WRONG_LINES, wrong, strict=True):
        assert set(answer) == {"id", "error"}, line
        assert answer["error"].startswith(error)
        assert answer["id"] == ("q1" if isinstance(line, dict) else None)


@pytest.mark.parametrize(
    ("consumer_offset", "expected"),
    [
        (150, {"lag_ms": 90_000, "reason": "interpolated"}),
        (200, {"lag_ms": 60_000, "reason": "interpolated"}),  # the latest time of the flat stretch
        (300, {"lag_ms": 0, "reason": "end_reached"}),
        (900, {"lag_ms": 0, "reason": "end_reached"}),
        (50, {"lag_ms": 150_000, "reason": "extrapolated"}),
        (None, {"lag_ms": None, "reason": "offset_unknown"}),
    ],
)
def test_the_time_lag_lies_on_the_producer_curve(consumer_offset, expected):
    curve = [[100, 0], [200, 60_000], [200, 60_000], [300, 120_000]]
    result = run("time-lag", {"id": 1, "curve": curve, "consumer_offset": consumer_offset, "now_ms": 120_000})
    assert answers(result) == [{"id": 1} | expected]


def test_what_lies_too_far_before_the_curve_is_unknown_and_never_infinite():
    lines = [
        {"id": 1, "curve": [[1000, 0], [1100, 60_000]], "consumer_offset": 10, "now_ms": 60_000},
        {"id": 2, "curve": [[1000, 0], [1000, 60_000]], "consumer_offset": 10, "now_ms": 60_000},
        {"id": 3, "curve": [], "consumer_offset": 10, "now_ms": 60_000},
    ]
    found = answers(run("time-lag", *lines))
    assert [(one["lag_ms"], one["reason"]) for one in found] == [
        (None, "before_curve"),
        (None, "before_curve"),
        (None, "curve_unknown"),
    ]


def test_a_wrong_point_is_named():
    result = run("time-lag", {"id": 1, "curve": [[1, 2], [3]], "consumer_offset": 1, "now_ms": 3})
    assert answers(result) == [{"id": 1, "error": "field curve[1]: is no point: write [max_offset, at_ms]"}]
    assert result.exit_code == 1


def test_people_read_a_sentence_and_no_control_characters():
    result = run("queue", QUEUE | {"id": "\x1b[31mq1"}, {"id": 2}, output_format="table")
    assert "STALLED: messages that wait: 29,890; nothing was committed for 29 min" in result.stdout
    assert "2: field now_ms: is missing" in result.stdout
    assert "\x1b" not in result.stdout


NOW_MS = 1_795_255_200_000
CASES = yaml.safe_load((Path(__file__).parents[1] / "decide" / "decisions.yml").read_text(encoding="utf-8"))
LINE = {"id": 1, "now_ms": NOW_MS, "last_sent": None, "firing": ["a"], "resolved": []}


def line(case: dict[str, Any]) -> dict[str, Any]:
    """Give a case of the decision as a line of the command."""
    last = case["last"]
    sent = last and {"at_ms": NOW_MS - last[0] * 60_000, "firing": last[1], "resolved": last[2]}
    wanted = {name: case[name] for name in ("firing", "resolved", "send_resolved") if name in case}
    return {"id": case["why"], "now_ms": NOW_MS, "last_sent": sent, "repeat_interval_ms": 3_600_000, **wanted}


def test_every_case_of_the_decision_is_answered_in_its_place() -> None:
    result = run("notification", *map(line, CASES))
    assert answers(result) == [
        {"id": case["why"], "send": case["expect"][0], "reason": case["expect"][1]} for case in CASES
    ]
    assert result.exit_code == 0


def test_spans_and_wishes_that_are_not_given_are_the_configurations_defaults() -> None:
    sent = {"at_ms": NOW_MS - 4 * 3_600_000, "firing": ["a", "b"]}
    lines = [
        LINE | {"last_sent": sent | {"firing": ["a"]}},
        LINE | {"last_sent": sent | {"firing": ["a"], "at_ms": sent["at_ms"] - 1}},
        {"id": 3, "now_ms": NOW_MS, "last_sent": sent, "firing": ["a"], "resolved": ["b"]},
    ]
    assert [one["reason"] for one in answers(run("notification", *lines))] == ["nothing_new", "repeat", "resolved"]


def test_ids_may_be_numbers_and_lists_null() -> None:
    """Alertmanager keeps hashes, and Go writes an empty list as null."""
    sent = {"at_ms": NOW_MS, "firing": [1], "resolved": None}
    lines = [LINE | {"last_sent": sent, "firing": ["1"]}, LINE | {"last_sent": sent, "firing": None}]
    assert [one["reason"] for one in answers(run("notification", *lines))] == ["new_firing", "all_resolved"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (LINE | {"firing": "a"}, "field firing: is no list"),
        ({"id": 1, "now_ms": NOW_MS, "last_sent": None}, "field firing: is missing"),
        (LINE | {"firing": [["a"]]}, "field firing[0]: is"),
        (LINE | {"last_sent": {"firing": []}}, "field last_sent.at_ms: is missing"),
        (LINE | {"repeat_interval_ms": -1}, "field repeat_interval_ms: is -1"),
        (LINE | {"send_resolved": "no"}, "field send_resolved: is"),
        ("{", "field (line): is no JSON"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_line_about_a_notification_names_the_field_in_its_place(wrong: object, error: str) -> None:
    result = run("notification", LINE, wrong, LINE)
    first, found, last = answers(result)
    assert (first["reason"], last["reason"], result.exit_code) == ("first", "first", 1)
    assert found["error"].startswith(error)


def test_people_read_a_line_of_a_notification_and_help_names_every_reason() -> None:
    assert run("notification", LINE | {"id": "\x1b[31mx"}, output_format="table").stdout.endswith("x: send (first)\n")
    shown = CliRunner().invoke(offsetguard, ["explain", "notification", "--help"]).stdout
    assert [one.value for one in NotificationReason if one.value not in shown] == []


def test_the_longest_spans_are_no_mistake() -> None:
    sent = {"at_ms": 0, "firing": ["a"], "resolved": []}
    (answer,) = answers(run("notification", LINE | {"last_sent": sent, "repeat_interval_ms": 253_402_300_799_999}))
    assert answer["reason"] == "nothing_new"
