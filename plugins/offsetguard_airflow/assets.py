"""What our DAGs announce to each other."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

PUBLISHED_FACTS = Asset(name="offsetguard_published_facts", uri="x-offsetguard://published-facts")
"""An interval of a cluster became readable as a whole."""

OUTBOX = Asset(name="offsetguard_outbox", uri="x-offsetguard://outbox")
"""There are messages to deliver. Starts `deliver_warnings` at once."""

OUTBOX_CHANGES = AssetAlias(name="offsetguard_outbox_changes")
"""Outlet of the judge: it adds OUTBOX only when it wrote a message, so quiet minutes start nothing."""
