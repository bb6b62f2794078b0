"""DECIDE: findings become incidents, and incidents messages: who hears of what, when, and why."""
