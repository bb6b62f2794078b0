"""Run the demo: `make demo`, or `python -m offsetguard_peers.demo`."""

import sys

from offsetguard_peers.demo.embedded import main

if __name__ == "__main__":  # not in a process that multiprocessing starts
    sys.exit(main())
