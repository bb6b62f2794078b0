"""A strict simulation of Slack."""
