"""How soon trouble is named, and how silent health is: docs/verdicts.md, made of what was measured.

    make verdicts                                                  measure again, on real brokers (an hour and a half)
    python -m offsetguard_peers.verdicts > docs/verdicts.md        the page only, of what was measured last
    python -m offsetguard_peers.verdicts --measure forecasts weeks [--groups 200] [--days 7] [--parts 2]

What was measured is kept in `tests/live/incidents/measured.yml`: by `tests/live/incidents` when the variable
OFFSETGUARD_KEEP_VERDICTS is set, by `benchmarks/soak.py --keep`, and by `--measure`: forecasts on simulated brokers,
and weeks with a daily rhythm, of which it prints each warning.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from offsetguard_peers.simulated.brokers import DAY, KINDS, world
from offsetguard_peers.simulated.forecasts import preventable, scored, try_worlds, warnings
from offsetguard_peers.simulated.judged_weeks import find_troubles, healthy_week
from offsetguard_peers.simulated.judged_weeks import warnings as warnings_of_week
from offsetguard_peers.simulated.weekly_groups import DAY as STEPS_A_DAY
from offsetguard_peers.simulated.weekly_groups import HOUR as STEPS_AN_HOUR

MEASURED_FILE = Path(__file__).parents[2] / "live" / "incidents" / "measured.yml"
KEEP_VARIABLE = "OFFSETGUARD_KEEP_VERDICTS"
PARTS = ("incidents", "soaks", "weeks", "forecasts")
_HEAD = "# Measured; write it again with: make verdicts\n"

Measured = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """How one staged trouble was found on one line."""

    incident: str  # I1 to I5
    what: str  # what was staged, in a few words
    rule: str
    severity: str
    rounds: int  # judged rounds from the trouble's beginning on, the one that found it included
    seconds: int  # from the trouble's beginning to the end of that round


def read_measured(file: Path = MEASURED_FILE) -> Measured:
    """Read what was measured last."""
    measured: Measured = yaml.safe_load(file.read_text(encoding="utf-8"))
    return measured


def keep(part: str, figures: Mapping[str, object], file: Path = MEASURED_FILE) -> None:
    """Keep figures of a part by their keys (a version, or a word); what has other keys stays as it is."""
    known = read_measured(file) if file.exists() else {}
    measured = {one: dict(known.get(one) or {}) for one in PARTS}
    measured[part].update(figures)
    ordered = {one: dict(sorted(measured[one].items())) for one in PARTS}
    file.write_text(_HEAD + yaml.safe_dump(ordered, sort_keys=False, width=110), encoding="utf-8")


def keep_incidents(version: str, found: Sequence[Found], *, every_s: float, rounds: int, false_findings: int) -> None:
    """Keep what one line's staged incidents gave."""
    line = {"every_s": every_s, "rounds": rounds, "false_findings": false_findings}
    keep("incidents", {version: {**line, "found": [asdict(one) for one in found]}})


def page(measured: Measured) -> str:
    """Make docs/verdicts.md of `verdicts.md.j2`."""
    by_incident: dict[tuple[str, str], dict[str, Measured]] = {}
    for version, line in measured["incidents"].items():
        for one in line["found"]:
            by_incident.setdefault((one["incident"], one["what"]), {})[version] = one
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, autoescape=False)  # noqa: S701 Markdown
    text = Path(__file__).with_suffix(".md.j2").read_text(encoding="utf-8")
    return template.from_string(text).render(measured, by_incident=by_incident)


WORLD_DAYS = 4
SEEDS = {"tuned": range(4), "held_out": range(3_000, 3_004)}  # of each kind; the latter nobody looked at before
MINUTES_A_DAY = 1_440
TROUBLED_GROUPS = 4


def forecast_figures(seeds: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Let simulated brokers live, and count what was foretold and what came."""
    worlds = (world(kind, seed, WORLD_DAYS * DAY) for kind in KINDS for seed in seeds)
    tried = try_worlds(worlds, WORLD_DAYS * DAY)
    figures: dict[str, dict[str, Any]] = {}
    for kind in ("drain", "loss"):
        inside = Counter(is_inside for one in tried for said, is_inside, _ in scored(one) if said.kind == kind)
        figures[kind] = {"outcomes": inside.total(), "inside": inside[True]}
    warned = Counter(in_time for one in tried for _, _, in_time in preventable(one))
    false = Counter(is_false for one in tried for _, _, is_false in warnings(one))
    figures["warnings"] = {"preventable": warned.total(), "warned": warned[True], "said": false.total()}
    figures["warnings"] |= {"needless": false[True], "worlds": len(tried), "days": WORLD_DAYS}
    return figures


def week_figures(groups: int, days: int, parts: int) -> dict[str, dict[str, Any]]:
    """Judge healthy groups for some days, and inject every trouble into some of them."""
    shares = [(range(part, groups, parts), days) for part in range(parts)]
    with ProcessPoolExecutor(parts) as pool:
        warned = sum(pool.map(_warnings, shares))
    at = 2 * STEPS_A_DAY + 11 * STEPS_AN_HOUR + 7
    found = [one for number in range(TROUBLED_GROUPS) for one in find_troubles(number, at).values()]
    cycles = [one.after + 1 for one in found if one.after is not None]
    return {
        "healthy": {"groups": groups, "days": days, "cycles": days * MINUTES_A_DAY, "warnings": warned},
        "troubled": {"injected": len(found), "found": len(cycles), "cycles": max(cycles, default=0)}
        | {"other_warnings": sum(len(one.others) for one in found)},
    }


def _warnings(share: tuple[Sequence[int], int]) -> int:
    numbers, days = share
    last = days * MINUTES_A_DAY
    count = 0
    for minute, finding in warnings_of_week(healthy_week(numbers, 0, last, seed=numbers[0]), 0, last):
        print(f"minute {minute}: {finding.rule.id}: {finding.cause}", flush=True)
        count += 1
    return count


def main() -> None:
    """Print the page, or measure what is asked for and keep it."""
    parser = argparse.ArgumentParser(prog="python -m offsetguard_peers.verdicts")
    parser.add_argument("--measure", nargs="+", default=(), choices=("forecasts", "weeks"))
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--parts", type=int, default=2, help="processes")
    options = parser.parse_args()
    if "forecasts" in options.measure:
        keep("forecasts", {name: forecast_figures(seeds) for name, seeds in SEEDS.items()})
    if "weeks" in options.measure:
        keep("weeks", week_figures(options.groups, options.days, options.parts))
    if not options.measure:
        sys.stdout.write(page(read_measured()))


if __name__ == "__main__":
    main()
