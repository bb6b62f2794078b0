"""DECIDE: findings become incidents, and incidents messages: who is notified of what, when, and why."""
