"""The lock of `offsetguard.publish_lock`, which housekeeping takes as well."""

from __future__ import annotations

from offsetguard.publish_lock import only_publisher

__all__ = ["only_publisher"]
