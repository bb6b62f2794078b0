"""A storm's questions to the configuration: owner and route of 10,000 groups under 300 patterns, asked by every rule.

    uv run python benchmarks/many_patterns.py [--groups 10000] [--patterns 300]

Four kinds of patterns, each of which also stands in a route: literal names, beginnings, ends, and texts in the middle.
`asked again` is what each further rule pays. Fails when the first questions of a kind take longer than a second.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from offsetguard.config import Config
from offsetguard.model.verdicts import Severity

LIMIT_S = 1.0
KINDS: dict[str, Callable[[int], str]] = {
    "literal": lambda n: f"team{n}-{n}-x{n}-svc{n}",
    "beginning": lambda n: f"team{n}-*",
    "end": lambda n: f"*-svc{n}",
    "middle": lambda n: f"*-x{n}-*",
}


def main() -> int:
    """Print a line per kind of patterns; 1 when one took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--patterns", type=int, default=300)
    parsed = parser.parse_args()
    groups = [
        f"team{n % parsed.patterns}-{n}-x{n % parsed.patterns}-svc{n % parsed.patterns}" for n in range(parsed.groups)
    ]
    print(f"{'patterns':>10} {'policies s':>10} {'asked again s':>13} {'routes s':>9} {'asked again s':>13}")
    slow = False
    for kind, pattern in KINDS.items():
        config = configuration(pattern, parsed.patterns)
        policies_s, again_s = (timed(ask_policies, config, groups) for _ in range(2))
        routes_s, routes_again_s = (timed(ask_routes, config, groups) for _ in range(2))
        print(f"{kind:>10} {policies_s:>10.3f} {again_s:>13.3f} {routes_s:>9.3f} {routes_again_s:>13.3f}")
        slow |= policies_s + routes_s > LIMIT_S
    return 1 if slow else 0


def configuration(pattern: Callable[[int], str], count: int) -> Config:
    """Return `count` teams that own what a pattern each matches, and a route for each."""
    numbers = range(count)
    return Config.model_validate(
        {
            "clusters": {"main": {"name_servers": ["127.0.0.1:9876"]}},
            "teams": {f"team{n}": {"mail": [f"team{n}@example.com"]} for n in numbers},
            "default_team": "team0",
            "groups": [{"match": pattern(n), "team": f"team{n}"} for n in numbers],
            "routes": [{"consumer_group": pattern(n), "language": "zh"} for n in numbers],
        }
    )


def ask_policies(config: Config, groups: list[str]) -> None:
    """As one rule does."""
    for name in groups:
        config.policy("main", name)


def ask_routes(config: Config, groups: list[str]) -> None:
    """As the decision does for an incident of each group."""
    for name in groups:
        team = config.policy("main", name).team
        config.route(team, "main", rule_id="accumulation", severity=Severity.CRITICAL, consumer_group=name)


def timed(ask: Callable[[Config, list[str]], None], config: Config, groups: list[str]) -> float:
    """Return seconds."""
    began = time.perf_counter()
    ask(config, groups)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
