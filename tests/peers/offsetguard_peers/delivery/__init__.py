"""A database, mail and Slack around the deliverer, and what kills it."""
