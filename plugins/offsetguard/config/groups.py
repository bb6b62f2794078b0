"""Section `groups`: owners and limits of consumer groups, by patterns."""

from offsetguard.config.fields import Glob, Milliseconds, Name, Window
from offsetguard.constraints import NO_OTHER_FIELDS, Count, Flag
from offsetguard.records import record


@record(kw_only=True)
class GroupPolicy:
    """What holds for the consumer groups that a pattern matches; the first entry that names a field wins."""

    __pydantic_config__ = NO_OTHER_FIELDS

    match: Glob  # glob on the consumer group, case matters
    cluster: Glob = "*"  # glob on the cluster's name
    team: Name | None = None  # who owns these groups
    max_lag_messages: Count | None = None  # more messages waiting than this is a finding
    max_lag_ms: Milliseconds | None = None  # the oldest waiting message is older than this: also a finding
    allowed_lag: Count | None = None  # messages that may wait for ever in a queue, as transaction markers leave them
    lag_floor: Count | None = None  # growth by fewer messages, that are also younger than lag_floor_ms, is no trouble
    lag_floor_ms: Milliseconds | None = None  # see lag_floor
    window_ms: Window | None = None  # how far back a queue's state looks
    loss_horizon_ms: Milliseconds | None = None  # messages that will be deleted unconsumed within it are AT_RISK
    orderly: Flag | None = None  # consumes with MessageListenerOrderly: its locks are checked
    lock_interval_ms: Milliseconds | None = None  # declared: -Drocketmq.client.rebalance.lockInterval of its clients


@record(kw_only=True)
class WindowPolicy:
    """By what the window of a queue is judged (`windows.py`): no limits, but what is too little to speak of."""

    __pydantic_config__ = NO_OTHER_FIELDS

    allowed_lag: Count = 0  # messages that may wait for ever, e.g. where transaction markers leave a lag of 1
    lag_floor: Count = 1_000  # growth by fewer messages, that are also younger than lag_floor_ms, is no trouble
    lag_floor_ms: Milliseconds = 60_000
    window_ms: Milliseconds = 30 * 60_000
    loss_horizon_ms: Milliseconds = 4 * 3_600_000  # a loss further ahead is not yet a risk


@record(kw_only=True)
class EffectivePolicy(WindowPolicy):
    """What holds for one consumer group of one cluster, with defaults filled in."""

    team: Name
    max_lag_messages: Count = 10_000
    max_lag_ms: Milliseconds = 5 * 60_000
    orderly: Flag = False
    lock_interval_ms: Milliseconds = 20_000
