"""Findings over time: when an incident opens and closes, and when people are notified."""
