"""What RocketMQ's settings say of its rebalance lock, and the kinds of log lines about groups, by what they tell.

A client renews the locks of an orderly group every `rocketmq.client.rebalance.lockInterval` (20 s by default); a broker
forgets a lock `rocketmq.broker.rebalance.lockMaxLiveTime` (60 s by default) after its last renewal.
Source: RebalanceLockManager, ConsumeMessageOrderlyService (4.9.8, 5.3.3).

The kinds are the names that rules look for in `log_line_facts`; which are counted at all stands in
`facts/log_line_facts.sql`.
"""

from datetime import timedelta

LOCK_INTERVALS_PER_LIFE = 3  # with fewer, two late renewals hand a queue to another client while the first consumes

REBALANCE_INTERVAL_MS = 20_000  # rocketmq.client.rebalance.waitInterval: how often a client asks for a lock again

LOCK_LIFE = timedelta(seconds=60)  # by default
LOCK_SILENCE = timedelta(seconds=90)  # four rebalances and a late one: who was not refused meanwhile waits no more

SILENCE = timedelta(seconds=45)  # ends a spell of lines: two rebalance rounds and a late one

LEAST_SYNC_LINES, SYNC_LASTS = 3, timedelta(minutes=2)  # of a slave that does not take something over
SYNC_SILENCE = timedelta(minutes=3)  # ends a spell of these: 5.x tries again after 60 s

NOT_IN_MEMBERS = "client_not_in_members"
CLIENT_NOT_LATEST = "client_subscription_not_latest"
NOT_ONLINE = "group_not_online"
NOT_CREATED = "group_not_created"
NO_MEMBERS = "member_list_failed"
FILE_NOT_WRITTEN = "offset_file_not_written"

PUSH, PULL = "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"
"""How push consumers name themselves; a POP group's clients do, too."""

OPERATORS_THREAD = "AdminBrokerThread"
"""Of a broker: requests of mqadmin and consoles run there (BrokerController 4.9.7, 5.5.0)."""

REBALANCE_NOISE = (NOT_IN_MEMBERS, CLIENT_NOT_LATEST, "subscription_not_latest", NO_MEMBERS)
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
FLOW_CONTROL = (
    "flow_control_count",
    "flow_control_size",
    "flow_control_span",
    "flow_control_requests",
    "flow_control_pop",
)


def as_written(value: object) -> str:
    """Return a value as RocketMQ writes it in settings, fields and options: true and false in small letters."""
    if type(value) is str:  # at once: it is asked for each field of each request
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
