"""Silence on a healthy cluster: restarts, redeployments, scaling, bursts, a broker restart, and no warning.

    uv run python benchmarks/soak.py [--version 5.5.0] [--minutes 20] [--every 15] [--seed 1] [--keep]

A master and its slave serve seven consumer groups; something happens to them every ten seconds or so. A round is
collected and judged every 15 s, with the logs of the brokers, by the code of `check` and the pipeline. Prints every
finding above INFO; exit 1 if there was one. `--keep` keeps the figures for docs/verdicts.md.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from offsetguard_peers.rocketmq import VERSIONS
from offsetguard_peers.soak import Soak
from offsetguard_peers.verdicts_page import keep


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=VERSIONS, default="5.5.0")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between two rounds")
    parser.add_argument("--seed", type=int, default=None, help="of what happens; drawn, and printed, by default")
    parser.add_argument("--keep", action="store_true", help="keep the figures for docs/verdicts.md")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    print(f"RocketMQ {options.version}, {options.minutes:g} min, a round every {options.every:g} s, --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="offsetguard-soak-") as folder:
        result = Soak(options.version, Path(folder) / "cluster", seed=seed).run(
            minutes=options.minutes, every_s=options.every
        )
    happened = ", ".join(f"{count} x {name.replace('_', ' ')}" for name, count in result.action_counts().items())
    print(f"{result.round_count} rounds judged; {happened}; {len(result.warnings)} findings above INFO")
    if options.keep:
        soak = {"minutes": result.minutes, "every_s": options.every, "rounds": result.round_count}
        soak |= {"happened": result.action_counts(), "warnings": len(result.warnings)}
        keep("soaks", {result.version: soak})
    return 1 if result.warnings else 0


if __name__ == "__main__":
    sys.exit(main())
