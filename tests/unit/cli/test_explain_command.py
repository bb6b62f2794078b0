"""`offsetguard explain`: one answer per line, errors in their places, and the pipeline's own judgement and decision."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from offsetguard_peers import command_line
from offsetguard_peers.command_line import json_lines

SAMPLES = [{"at_ms": minute * 60_000, "consumer_offset": 10, "max_offset": 900 + minute * 1000} for minute in range(30)]
QUEUE = {"id": "q1", "now_ms": 29 * 60_000, "samples": SAMPLES}
NOW_MS = 1_795_255_200_000
NOTIFICATION = {"id": 1, "now_ms": NOW_MS, "last_sent": None, "firing": ["a"], "resolved": []}
SENT = {"at_ms": NOW_MS, "firing": ["a"], "resolved": []}
CASES = yaml.safe_load((Path(__file__).parents[1] / "decide" / "decisions.yml").read_text(encoding="utf-8"))


def run(command: str, *lines: object, output_format: str = "json") -> Result:
    text = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    return command_line.run("explain", command, "--format", output_format, stdin=text)


def answers(command: str, *lines: object) -> list[dict[str, Any]]:
    result = run(command, *lines)
    assert result.exit_code == 0, result.output
    return json_lines(result)


def test_a_queue_gets_its_state_the_rule_that_fired_and_the_figures():
    (answer,) = answers("queue", QUEUE | {"online_clients": 0})
    assert answer.pop("reason")
    assert list(answer.items()) == [
        ("id", "q1"),
        ("state", "STOPPED"),
        ("rule", "stopped"),
        ("lag", 29_890),
        ("effective_lag", 29_890),
        ("lost", None),  # the oldest message is not known
        ("lag_ms", 29 * 60_000 + 53_400),
        ("samples_used", 30),
        ("drain_ms", None),
        ("loss_ms", None),
    ]


def test_null_is_as_good_as_a_field_that_is_missing_and_one_of_a_later_release_is_no_mistake():
    nothing = dict.fromkeys(("online_clients", "message_model", "orderly", "subscribed", "policy"))
    samples = [dict.fromkeys(("min_offset", "pull_offset", "last_timestamp_ms")) | one for one in SAMPLES]
    later = QUEUE | {"colour": 1, "policy": {"colour": 1}}
    plain, with_nulls, of_later = answers("queue", QUEUE, QUEUE | nothing | {"samples": samples}, later)
    assert plain == with_nulls == of_later


def test_the_policy_is_the_default_but_for_what_is_given():
    policies = ({}, {"allowed_lag": 30_000}, {"window_ms": 60_000})
    found = answers("queue", *(QUEUE | {"policy": policy} for policy in policies))
    assert [(one["state"], one["samples_used"]) for one in found] == [("STALLED", 30), ("OK", 30), ("STALLED", 2)]


WRONG_LINES = [
    ("queue", "nonsense", "(line): is no JSON"),
    ("queue", "[" * 100_000, "(line): is no JSON"),
    ("queue", '{"id": "q1", "now_ms": NaN}', "(line): is no JSON"),
    ("queue", [1, 2], "(line): is no JSON object but [1, 2]"),
    ("queue", {"id": "q1", "samples": []}, "now_ms: is missing"),
    ("queue", {"id": "q1", "now_ms": 1}, "samples: is missing"),
    ("queue", QUEUE | {"now_ms": "soon"}, 'now_ms: is "soon": write a whole number'),
    ("queue", QUEUE | {"now_ms": 10**18}, "now_ms: is 1000000000000000000: it must be from 0 to"),
    ("queue", QUEUE | {"samples": [{"consumer_offset": 1}]}, "samples[0].at_ms: is missing"),
    ("queue", QUEUE | {"samples": [*SAMPLES, 7]}, "samples[30]: is no JSON object but 7"),
    ("queue", QUEUE | {"samples": [{"at_ms": 1, "max_offset": -1}]}, "samples[0].max_offset: is -1"),
    ("queue", QUEUE | {"samples": [{"at_ms": 1, "max_offset": True}]}, "samples[0].max_offset: is true"),
    ("queue", QUEUE | {"samples": [{"at_ms": 1, "max_offset": 1.5}]}, "samples[0].max_offset: is 1.5"),
    ("queue", QUEUE | {"online_clients": "two"}, 'online_clients: is "two"'),
    ("queue", QUEUE | {"message_model": "pop"}, 'message_model: is "pop": write clustering or broadcasting'),
    ("queue", QUEUE | {"subscribed": 1}, "subscribed: is 1: write true, false or null"),
    ("queue", QUEUE | {"policy": {"window_ms": 0}}, "policy.window_ms: is 0"),
    ("queue", QUEUE | {"policy": 3}, "policy: is no JSON object but 3"),
    ("time-lag", {"id": 1, "curve": [[1, 2], [3]], "now_ms": 3}, "curve[1]: is no point: write [max_offset, at_ms]"),
    ("notification", "{", "(line): is no JSON"),
    ("notification", {"id": 1, "now_ms": NOW_MS, "last_sent": None}, "firing: is missing"),
    ("notification", NOTIFICATION | {"firing": "a"}, "firing: is no list"),
    ("notification", NOTIFICATION | {"firing": [["a"]]}, "firing[0]: is"),
    ("notification", NOTIFICATION | {"last_sent": {"firing": []}}, "last_sent.at_ms: is missing"),
    ("notification", NOTIFICATION | {"repeat_interval_ms": -1}, "repeat_interval_ms: is -1"),
    ("notification", NOTIFICATION | {"send_resolved": "no"}, "send_resolved: is"),
]
RIGHT_LINES = {"queue": QUEUE, "time-lag": {"id": 1, "curve": [], "now_ms": 3}, "notification": NOTIFICATION}


@pytest.mark.parametrize("command", RIGHT_LINES)
def test_a_line_that_is_wrong_names_the_field_in_its_place(command: str) -> None:
    right = RIGHT_LINES[command]
    wrong = [(line, error) for of, line, error in WRONG_LINES if of == command]
    result = run(command, right, *(line for line, _ in wrong), right)
    first, *found, last = json_lines(result)
    assert first == last
    assert (result.exit_code, "error" in first) == (1, False)
    for (line, error), answer in zip(wrong, found, strict=True):
        assert answer == {"id": line["id"] if isinstance(line, dict) else None, "error": answer["error"]}
        assert answer["error"].startswith(f"field {error}")


def test_the_time_lag_lies_on_the_producer_curve():
    """Every basis once; the cases are in tests/unit/facts/time_lag_cases.yml."""
    expected = [
        ([[100, 0], [200, 60_000], [300, 120_000]], 150, 90_000, "interpolated"),
        ([[100, 0], [200, 60_000], [300, 120_000]], 900, 0, "end_reached"),
        ([[100, 0], [200, 60_000], [300, 120_000]], 50, 150_000, "extrapolated"),
        ([[100, 0], [200, 60_000], [300, 120_000]], None, None, "offset_unknown"),
        ([[1000, 0], [1100, 120_000]], 10, None, "before_curve"),
        ([], 10, None, "curve_unknown"),
    ]
    lines = [{"id": 1, "curve": curve, "consumer_offset": at, "now_ms": 120_000} for curve, at, *_ in expected]
    found = answers("time-lag", *lines)
    assert found == [{"id": 1, "lag_ms": lag_ms, "reason": basis} for _, _, lag_ms, basis in expected]


def test_every_case_of_the_decision_is_answered_in_its_place() -> None:
    def line(case: dict[str, Any]) -> dict[str, Any]:
        last = case["last"]
        sent = last and {"at_ms": NOW_MS - last[0] * 60_000, "firing": last[1], "resolved": last[2]}
        wanted = {name: case[name] for name in ("firing", "resolved", "send_resolved") if name in case}
        return {"id": case["why"], "now_ms": NOW_MS, "last_sent": sent, "repeat_interval_ms": 3_600_000, **wanted}

    assert answers("notification", *map(line, CASES)) == [
        {"id": case["why"], "send": case["expect"][0], "reason": case["expect"][1]} for case in CASES
    ]


def test_spans_and_wishes_that_are_not_given_are_the_configurations_defaults_and_the_longest_are_no_mistake() -> None:
    four_hours_ago = NOW_MS - 4 * 3_600_000
    lines = [
        NOTIFICATION | {"last_sent": SENT | {"at_ms": four_hours_ago}},
        NOTIFICATION | {"last_sent": SENT | {"at_ms": four_hours_ago - 1}},
        NOTIFICATION | {"last_sent": SENT | {"firing": ["a", "b"]}, "resolved": ["b"]},
        NOTIFICATION | {"last_sent": SENT | {"at_ms": 0}, "repeat_interval_ms": 253_402_300_799_999},
    ]
    reasons = [one["reason"] for one in answers("notification", *lines)]
    assert reasons == ["nothing_new", "repeat", "resolved", "nothing_new"]


def test_ids_may_be_numbers_and_lists_null() -> None:
    """Alertmanager keeps hashes, and Go writes an empty list as null."""
    sent = {"at_ms": NOW_MS, "firing": [1], "resolved": None}
    lines = [NOTIFICATION | {"last_sent": sent, "firing": firing} for firing in (["1"], None)]
    assert [one["reason"] for one in answers("notification", *lines)] == ["new_firing", "all_resolved"]


def test_people_read_a_sentence_and_no_control_characters():
    shown = run("queue", QUEUE | {"id": "\x1b[31mq1"}, {"id": 2}, output_format="table").stdout
    shown += run("notification", NOTIFICATION | {"id": "\x1b[31mx"}, output_format="table").stdout
    assert "STALLED: messages that wait: 29,890; nothing was committed for 29 min" in shown
    assert "2: field now_ms: is missing" in shown
    assert shown.endswith("x: send (first)\n")
    assert "\x1b" not in shown
