"""Invariants as typed constants, and the Great Expectations suites made from them."""

import logging

logging.getLogger("great_expectations").setLevel(
    logging.WARNING
)  # its import alone is 150 lines of INFO in a task's log
