"""Whether everything that is said is so: each sentence of mails, Slack and pages read against what was staged.

    uv run python benchmarks/claims.py [--version 5.5.0] [--minutes 60] [--seed 1] [--keep FOLDER]

A world stays up in which consumers stop and come back, groups vanish, lose messages, are reset, hang, are acknowledged,
get worse and well, and brokers and the collector are away at times (`offsetguard_peers/trials/claims_world.py`). Each
minute it is collected, judged and told as the pipeline does, and a checker that knows what was staged reads it
(`claims.py` beside it). Prints what happens, what is told, and each sentence that is not so, with the truth. Exit
code 1: there is one. `--keep`: mails, brokers and tables stay in that folder.
"""

import argparse
import logging
import secrets
import sys
import tempfile
from functools import partial
from pathlib import Path

from offsetguard_peers.rocketmq.cluster import VERSIONS
from offsetguard_peers.trials.claims_world import ClaimsWorld


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=VERSIONS, default="5.5.0")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="of what happens; drawn, and printed, by default")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for mails, brokers and tables")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    tell = partial(print, flush=True)
    logging.disable(logging.INFO)  # pages import Airflow, which tells of everything
    tell(f"RocketMQ {options.version}, {options.minutes:g} min, --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="offsetguard-claims-") as folder:
        world = ClaimsWorld(options.version, options.keep or Path(folder), seed=seed, tell=tell)
        checker = world.run(minutes=options.minutes)
    tell(f"{checker.read_count:,} sentences of rules read, {len(checker.false)} false")
    return 0 if checker.read_count and not checker.false else 1


if __name__ == "__main__":
    sys.exit(main())
