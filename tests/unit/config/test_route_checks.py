"""What a configuration says and nobody can have meant is told with its line; cases are data in route_checks.yml."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from offsetguard.config.checks import check_file
from offsetguard.config.file import Problem, read_config_file
from offsetguard.judge.registry import RULES
from offsetguard_peers.cases.running import for_each

CASES = yaml.safe_load((Path(__file__).parent / "route_checks.yml").read_text(encoding="utf-8"))
NOW = datetime(2026, 11, 22, tzinfo=UTC)
NAMES = {*RULES, "daily_report"}


def text_of(case: dict[str, Any]) -> str:
    text: str = CASES["file"]
    for old, new in case.get("instead", {}).items():
        assert old in text, f"the case changes {old!r}, which the file does not have"
        text = text.replace(old, new)
    routes = "".join(f"  {line}\n" for line in case.get("routes", "").splitlines())
    more = f"{case['more']}\n" if "more" in case else ""
    return f"{text}{more}routes:\n{routes}"


@for_each("case", CASES["cases"], name_of=lambda case: case["why"])
def test_each_contradiction_is_told_with_its_line_and_field(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "offsetguard.yml"
    path.write_text(text_of(case), encoding="utf-8")
    checked = check_file(read_config_file(path), NAMES, NOW)
    assert told(checked.problems) == case.get("says", [])
    assert told(checked.notes) == case.get("notes", [])


def told(problems: Iterable[Problem]) -> list[str]:
    return [f"{one.line}: {one.field}: {one.what}" for one in problems]
