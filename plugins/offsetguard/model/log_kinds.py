"""Kinds of log lines about groups, by what they tell: the names that rules look for in `log_line_facts`.

The kinds that are counted at all stand in `facts/log_line_facts.sql`.
"""

from __future__ import annotations

from datetime import timedelta

SILENCE = timedelta(seconds=45)  # ends a spell of lines: two rebalance rounds and a late one

NOT_IN_MEMBERS = "client_not_in_members"
CLIENT_NOT_LATEST = "client_subscription_not_latest"
FILE_NOT_WRITTEN = "offset_file_not_written"

REBALANCE_NOISE = (NOT_IN_MEMBERS, CLIENT_NOT_LATEST, "subscription_not_latest", "member_list_failed")
MEMBERSHIP = (
    "members_changed",
    "consumer_started",
    "consumer_stopped",
    "consumer_connected",
    "consumer_unregistered",
    "channel_removed",
    "channel_expired",
    "group_offline",
)
RESETS = (
    "offset_reset_started",
    "offset_reset_sent",
    "offset_reset_stored",
    "client_offset_reset",
    "offsets_removed",
)
FLOW_CONTROL = ("flow_control_count", "flow_control_size", "flow_control_span")
