"""Silence on a busy cluster to which happens what happens to healthy ones, and the names of groups that stand still.

    uv run python benchmarks/soak.py [--version 5.5.0] [--minutes 30] [--every 15] [--seed 1] [--no-outages] [--keep]

A master and its slave serve seven consumer groups, a batch that comes and goes, and newcomers; something happens to
them every ten seconds or so, and the collector is away now and then, in half an hour once for ten to twenty minutes.
A round is collected and judged every 15 s, and another one every minute, with the logs of the brokers, by the code of
`check` and the pipeline. Some groups are made to stand still; each must be named by the 4th round of a minute. What
counts stands in `offsetguard_peers/trials/soak.py`. Prints every finding above INFO; exit 1 if one is about a group
that is well, or a group that stood still was not named in time. `--keep` keeps the figures for docs/verdicts.md.
"""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from offsetguard_peers.rocketmq.cluster import VERSIONS
from offsetguard_peers.trials.soak import Soak
from offsetguard_peers.verdicts import keep


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=VERSIONS, default="5.5.0")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between two rounds")
    parser.add_argument("--seed", type=int, default=None, help="of what happens; drawn, and printed, by default")
    parser.add_argument(
        "--outages",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let the collector be away now and then, where the minutes suffice for that",
    )
    parser.add_argument("--keep", action="store_true", help="keep the figures for docs/verdicts.md")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    print(f"RocketMQ {options.version}, {options.minutes:g} min, a round every {options.every:g} s, --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="offsetguard-soak-") as folder:
        soak = Soak(options.version, Path(folder) / "cluster", seed=seed, outages=options.outages)
        result = soak.run(minutes=options.minutes, every_s=options.every)
    happened = ", ".join(f"{count} x {name.replace('_', ' ')}" for name, count in result.action_counts().items())
    away_min = [round((end - begin) / 60, 1) for begin, end in result.outages]
    print(f"{result.round_count} rounds judged; {happened}; collector away for {away_min} min")
    print(*result.stood_still, sep="\n")
    print(f"{len(result.warnings)} findings above INFO about who is well; {result.learning} of a batch not yet known")
    if options.keep:
        soak_figures = {"minutes": result.minutes, "every_s": options.every, "rounds": result.round_count}
        soak_figures |= {"happened": result.action_counts(), "warnings": len(result.warnings)}
        soak_figures |= {"away_min": away_min, "learning": result.learning}
        named_in_rounds = result.named_in_rounds()
        soak_figures |= {"stood_still": len(named_in_rounds), "named_in_rounds": named_in_rounds}
        keep("soaks", {result.version: soak_figures})
    return 0 if result.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
