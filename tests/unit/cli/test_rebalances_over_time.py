"""A group that rebalances again and again is found over the rounds of a bundle: a public report, spread out in time."""

import json
import tarfile
from pathlib import Path

from offsetguard_peers.command_line import json_lines, run

REPORT = Path(__file__).parent / "reports" / "34" / "bundle.tar.xz"  # two clients, a round every 30 s
MEMBERS = 203
ROUND_MS = 30_000


def warnings_of(folder: Path, *, spread: int, rounds_of_a_process: int) -> list[str]:
    """Return what is said of the report, its rounds further apart, one client another process every few of them."""
    with tarfile.open(REPORT) as packed:
        packed.extractall(folder)  # noqa: S202 it is ours
    index = folder / "bundle" / "index.jsonl"
    entries = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()]
    began = min(one["t"] for one in entries)
    for number, one in enumerate(entries):
        seen = round((one["t"] - began) / ROUND_MS)
        one["t"] = began + spread * (one["t"] - began)
        if one["code"] == MEMBERS:
            body = (folder / "bundle" / "bodies" / one["file"]).read_text(encoding="utf-8")
            one["file"] = f"{number}.txt"
            changed = body.replace("10.0.1.2@2#9", f"10.0.1.2@2#{seen // rounds_of_a_process}")
            (folder / "bundle" / "bodies" / one["file"]).write_text(changed, encoding="utf-8")
    index.write_text("".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8")
    found = json_lines(run("diagnose", folder / "bundle", "--format", "json"))
    return [one["summary"] for one in found if one["rule"] == "rebalances_again" and not one["over"]]


def test_a_client_that_is_restarted_every_few_minutes_for_half_an_hour_is_named(tmp_path: Path) -> None:
    assert warnings_of(tmp_path, spread=3, rounds_of_a_process=3) == [
        "g_orders rebalances again and again: 10.0.1.2 left it 7 times in 27 min"
    ]


def test_the_same_within_ten_minutes_is_no_trouble_yet_nor_is_one_restart_in_half_an_hour(tmp_path: Path) -> None:
    assert warnings_of(tmp_path / "short", spread=1, rounds_of_a_process=3) == []
    assert warnings_of(tmp_path / "once", spread=3, rounds_of_a_process=12) == []
