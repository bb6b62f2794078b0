"""Measures what docs/verdicts.md says of simulated clusters, and keeps it: forecasts, and weeks with a daily rhythm.

python -m offsetguard_peers.verdicts.measuring forecasts weeks [--groups 200] [--days 7] [--parts 2]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from offsetguard_peers.simulated.brokers import DAY, KINDS, world
from offsetguard_peers.simulated.forecasts import preventable, scored, try_worlds, warnings
from offsetguard_peers.simulated.judged_weeks import find_troubles, healthy_week
from offsetguard_peers.simulated.judged_weeks import warnings as warnings_of_week
from offsetguard_peers.simulated.weekly_groups import DAY as STEPS_A_DAY
from offsetguard_peers.simulated.weekly_groups import HOUR as STEPS_AN_HOUR
from offsetguard_peers.verdicts.page import keep

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
    return sum(1 for _ in warnings_of_week(healthy_week(numbers, 0, last, seed=numbers[0]), 0, last))


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m offsetguard_peers.verdicts.measuring", description=__doc__)
    parser.add_argument("what", nargs="+", choices=("forecasts", "weeks"))
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--parts", type=int, default=2, help="processes")
    options = parser.parse_args()
    if "forecasts" in options.what:
        keep("forecasts", {name: forecast_figures(seeds) for name, seeds in SEEDS.items()})
    if "weeks" in options.what:
        keep("weeks", week_figures(options.groups, options.days, options.parts))


if __name__ == "__main__":
    main()
