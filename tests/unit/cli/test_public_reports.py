"""What was reported in public comes to its true cause, through the commands that people run: reports.yml says which."""

import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from offsetguard_peers.cases.running import read_cases
from offsetguard_peers.command_line import json_lines, run

REPORTS = Path(__file__).parent / "reports"


@pytest.mark.parametrize("case", read_cases(REPORTS.with_suffix(".yml")), ids=lambda case: case["case"])
def test_a_public_report_comes_to_its_true_cause(case: dict[str, Any], tmp_path: Path) -> None:
    printed = "\n".join(_printed(case, REPORTS / case["case"], tmp_path))
    assert [words for words in case.get("says", ()) if words not in printed] == [], printed
    assert [words for words in case.get("never", ()) if words in printed] == [], printed


def test_each_report_has_its_case() -> None:
    assert sorted(case["case"] for case in read_cases(REPORTS.with_suffix(".yml"))) == sorted(
        folder.name for folder in REPORTS.iterdir()
    )


def _printed(case: dict[str, Any], folder: Path, empty: Path) -> list[str]:
    """Give a report to its command, see what was made of it, and return what was printed."""
    if (bundle := folder / "bundle.tar.xz").exists():
        with tarfile.open(bundle) as packed:
            packed.extractall(empty)  # noqa: S202 it is ours
        return _diagnosed(case, run("diagnose", empty / "bundle", "--format", "json"))
    if logs := sorted(folder.glob("*.log")):
        return [text for log in logs for text in _parsed(case["kinds"][log.name], run("parse-log", log))]
    return _collected(case["offsets"], run("collect", "--state-dir", folder, "--out", empty))


def _diagnosed(case: dict[str, Any], result: Result) -> list[str]:
    found = json_lines(result)
    if "findings" in case:
        warned = [f"{one['rule']} {one['severity']}" for one in found if one["severity"] != "info"]
        assert sorted(warned) == sorted(case["findings"]), result.output
    return [json.dumps(one, ensure_ascii=False) for one in found] + [result.stderr]


def _parsed(kinds: dict[str, int], result: Result) -> list[str]:
    assert Counter(one["kind"] for one in json_lines(result)) == kinds, result.output
    return [result.output]


def _collected(offsets: int, result: Result) -> list[str]:
    (document,) = json_lines(result)
    assert document["rows"]["queue_snapshots"] == offsets, result.output
    return [result.output]
