"""Rows, real and random, for whatever makes facts of them."""
