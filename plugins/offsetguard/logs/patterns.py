"""All patterns, in the order in which they are tried; docs/logs.md is made of them."""

from __future__ import annotations

from offsetguard.logs import broker, client, lock, members, stats, store, watermark

PATTERNS = (
    *broker.PATTERNS,
    *members.PATTERNS,
    *lock.PATTERNS,
    *stats.PATTERNS,
    *store.PATTERNS,
    *watermark.PATTERNS,
    *client.PATTERNS,
)
