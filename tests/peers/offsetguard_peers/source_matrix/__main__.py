"""Print docs/sources.md, or measure it again: `python -m offsetguard_peers.source_matrix`."""

import sys

from offsetguard_peers.source_matrix.matrix import main

if __name__ == "__main__":  # not in a process that multiprocessing starts
    sys.exit(main())
