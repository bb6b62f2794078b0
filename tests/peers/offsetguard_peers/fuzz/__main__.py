"""Run the fuzzer: `make fuzz`, or `python -m offsetguard_peers.fuzz`."""

import sys

from offsetguard_peers.fuzz.attack import main

if __name__ == "__main__":  # not in a process that multiprocessing starts
    sys.exit(main())
