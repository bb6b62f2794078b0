"""The state of one queue, from its folded window."""
