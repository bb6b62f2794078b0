"""Invariants as typed constants, and the Great Expectations suites made from them."""
