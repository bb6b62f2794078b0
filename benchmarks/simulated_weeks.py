"""A week of 200 healthy consumer groups, judged every minute by the product's own code: nobody may be told anything.

    uv run python benchmarks/simulated_weeks.py [--groups 200] [--first-day 0] [--days 7] [--parts 1]

Each part simulates its share of the groups in a process of its own, with snapshots that are missing and brokers that
are restarted. Prints every warning, and how long it took; fails when there is one. `tests/unit/weeks` runs some hours.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from offsetguard_peers.simulated.judged_weeks import healthy_week, warnings

MINUTES_A_DAY = 1_440


def main() -> int:
    """Return 1 when somebody would have been told something."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--first-day", type=int, default=0, help="0: Monday")
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--parts", type=int, default=1, help="processes")
    options = parser.parse_args()
    first, last = options.first_day * MINUTES_A_DAY, (options.first_day + options.days) * MINUTES_A_DAY
    shares = [range(part, options.groups, options.parts) for part in range(options.parts)]
    with ProcessPoolExecutor(options.parts) as pool:
        parts = list(pool.map(judged, shares, [first] * len(shares), [last] * len(shares)))
    told = [line for lines, _ in parts for line in lines]
    print(*told, sep="\n")
    print(
        f"{options.groups} groups, {options.days} days, {last - first} cycles: {len(told)} warnings; "
        f"{sum(seconds for _, seconds in parts):.0f} s of CPU"
    )
    return 1 if told else 0


def judged(numbers: range, first: int, last: int) -> tuple[list[str], float]:
    """Judge a share of the groups; returns the warnings, and the seconds of CPU that it took."""
    week = healthy_week(numbers, first, last, seed=numbers.start)
    told = [f"minute {minute}: {finding.rule.id}: {finding.cause}" for minute, finding in warnings(week, first, last)]
    return told, time.process_time()


if __name__ == "__main__":
    sys.exit(main())
