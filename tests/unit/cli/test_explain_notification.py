"""`offsetguard explain notification` decides as the judge does, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.model.views import NotificationReason

NOW_MS = 1_795_255_200_000
CASES = yaml.safe_load((Path(__file__).parents[1] / "decide" / "decisions.yml").read_text(encoding="utf-8"))
LINE = {"id": 1, "now_ms": NOW_MS, "last_sent": None, "firing": ["a"], "resolved": []}


def explain(*lines: object, output_format: str = "json") -> Result:
    text = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    return CliRunner().invoke(offsetguard, ["explain", "notification", "--format", output_format], input=text)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def line(case: dict[str, Any]) -> dict[str, Any]:
    """Give a case of the decision as a line of the command."""
    last = case["last"]
    sent = last and {"at_ms": NOW_MS - last[0] * 60_000, "firing": last[1], "resolved": last[2]}
    wanted = {name: case[name] for name in ("firing", "resolved", "send_resolved") if name in case}
    return {"id": case["why"], "now_ms": NOW_MS, "last_sent": sent, "repeat_interval_ms": 3_600_000, **wanted}


def test_every_case_of_the_decision_is_answered_in_its_place() -> None:
    result = explain(*map(line, CASES))
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
    assert [one["reason"] for one in answers(explain(*lines))] == ["nothing_new", "repeat", "resolved"]


def test_ids_may_be_numbers_and_lists_null() -> None:
    """Alertmanager keeps hashes, and Go writes an empty list as null."""
    sent = {"at_ms": NOW_MS, "firing": [1], "resolved": None}
    lines = [LINE | {"last_sent": sent, "firing": ["1"]}, LINE | {"last_sent": sent, "firing": None}]
    assert [one["reason"] for one in answers(explain(*lines))] == ["new_firing", "all_resolved"]


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
def test_a_line_that_is_wrong_names_the_field_in_its_place(wrong: object, error: str) -> None:
    result = explain(LINE, wrong, LINE)
    first, found, last = answers(result)
    assert (first["reason"], last["reason"], result.exit_code) == ("first", "first", 1)
    assert found["error"].startswith(error)


def test_people_read_a_line_and_help_names_every_reason() -> None:
    assert explain(LINE | {"id": "\x1b[31mx"}, output_format="table").stdout.endswith("x: send (first)\n")
    shown = CliRunner().invoke(offsetguard, ["explain", "notification", "--help"]).stdout
    assert [one.value for one in NotificationReason if one.value not in shown] == []


def test_the_longest_spans_are_no_mistake() -> None:
    sent = {"at_ms": 0, "firing": ["a"], "resolved": []}
    (answer,) = answers(explain(LINE | {"last_sent": sent, "repeat_interval_ms": 253_402_300_799_999}))
    assert answer["reason"] == "nothing_new"
