"""Thin operators: they read the clock, the configuration and connections, and call one function of `offsetguard`."""
