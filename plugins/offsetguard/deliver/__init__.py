"""DELIVER: messages of the outbox rendered and handed to mail, Slack and webhooks, each with its receipt."""
