"""`make mutants SEED=… COUNT=…`: change the product in one place at a time, and see whether a test notices.

    python -m offsetguard_peers.mutants --seed 7 --count 100           all rooms in turn
    python -m offsetguard_peers.mutants --seed 7 --count 20 --rooms facts decide
    python -m offsetguard_peers.mutants --seed 7 --count 100 --list    what would be changed; runs nothing

A mutant is one change (`changes.py`), drawn by the seed: rooms take turns, within a room each place is as likely as any
other. Facts are changed in the SQL that people write; DuckDB's text is made from it again, and what that refuses is
drawn anew.

Each runs in a copy of the tracked files (`--workers` copies) in a fork of a warm process (`warm.py`): by the tests of
its room, first those that noticed the room's other mutants and those that name what was changed; when all have been
tried by these, who is left by all others without a JVM. Spark's and Airflow's rooms have tests of their own with one.
A test that noticed is run without the change, too. Whoever survives all of them is printed as a difference, to be
killed by a case, or to be judged: some mutants mean the same. A run that was interrupted goes on where it was, if no
file has changed since: what was tried is kept in .cache/mutants.jsonl. Exit code: 0 = at least `--least` per cent were
killed, 1 = fewer, 2 = a test fails without any change.
"""

import argparse
import random
import sys

from offsetguard_peers.mutants.changes import draw, rooms
from offsetguard_peers.mutants.runs import run


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="drawn, and printed, by default")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rooms", nargs="+", choices=sorted(rooms()), default=sorted(rooms()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--least", type=float, default=90.0, help="per cent that must be killed")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed  # noqa: S311 -- it hides nothing
    print(f"--seed {seed} --count {options.count} --rooms {' '.join(options.rooms)}", flush=True)
    mutants = draw(seed, options.rooms)
    if options.list:
        for _ in range(options.count):
            print(next(mutants).difference())
        return 0
    killed = options.count - len(run(mutants, count=options.count, workers=options.workers))
    print(f"{killed} of {options.count} killed ({killed / options.count:.0%})")
    return 0 if 100 * killed >= options.least * options.count else 1


if __name__ == "__main__":
    sys.exit(main())
