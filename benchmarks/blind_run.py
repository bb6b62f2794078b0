"""Whether troubles are named rightly that a seed draws: causes, groups and moments, harmless events among them.

    uv run python benchmarks/blind_run.py [--version 5.3.3] [--seed 1] [--troubles 15] [--minutes 15] [--every 10]
                                          [--json FILE] [--only CAUSE]...

A master and its slave serve groups that are well and go on, and one group or two a minute to which something happens:
a listener hangs, a pod is killed with its locks, an operator resets the offsets, retention is faster than a group. A
third as many events only look like trouble. A round is collected and judged every 10 s, with the logs of the brokers,
by the code of `check` and the pipeline. At the end a broker is killed.

Prints what happens and what is told, then a table: each trouble, as what it was named and after how many seconds, the
numbers of lost, skipped and repeated messages beside those that were counted at the clients, and whatever was told
above INFO and is explained by nothing that was staged. Exit 1 if anything of this is wrong. `--only` stages single
causes, all at once: --only "reset back" --only "a message fails".
"""

import argparse
import json
import secrets
import sys
import tempfile
from pathlib import Path

from offsetguard_peers.rocketmq.cluster import VERSIONS
from offsetguard_peers.trials.blind_causes import TROUBLES
from offsetguard_peers.trials.blind_run import BlindRun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=VERSIONS, default="5.3.3")
    parser.add_argument("--seed", type=int, default=None, help="of what happens; drawn, and printed, by default")
    parser.add_argument("--troubles", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=15.0, help="in which all of it happens; more are slower")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two rounds")
    parser.add_argument("--json", type=Path, default=None, help="where the report goes, also for a program")
    parser.add_argument("--only", action="append", default=[], choices=[one.name for one in TROUBLES])
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    print(
        f"RocketMQ {options.version}, {options.troubles} troubles in {options.minutes:g} min, --seed {seed}", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="offsetguard-blind-") as folder:
        run = BlindRun(
            options.version, Path(folder) / "cluster", seed=seed, troubles=options.troubles, only=options.only
        )
        result = run.run(minutes=options.minutes, every_s=options.every)
    print(result.table())
    if options.json:
        options.json.write_text(json.dumps(result.as_json(), indent=1, default=str), encoding="utf-8")
    return 0 if result.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
