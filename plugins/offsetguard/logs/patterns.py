"""All patterns, in the order in which they are tried; docs/logs.md is made of them."""

from __future__ import annotations

from offsetguard.logs import broker, lock, members

PATTERNS = (*broker.PATTERNS, *members.PATTERNS, *lock.PATTERNS)
