"""Trouble staged on live brokers, and whether it is named rightly."""
