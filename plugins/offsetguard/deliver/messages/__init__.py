"""Messages to people: one view, rendered as mail and as Slack blocks."""
