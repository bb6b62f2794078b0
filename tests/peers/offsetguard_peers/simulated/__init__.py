"""Brokers and consumer groups in figures only, for weeks and forecasts."""
