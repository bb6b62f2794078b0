"""stats.log: what a replica counts, each minute, hour and day. A client writes such lines into its own log.

Source: StatsItem, MomentStatsItem, BrokerStatsManager, ConsumerStatsManager of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
Latencies are printed as TIMES and AVGRT since 4.7, as SUM, TPS and AVGPT before (and 5.x TOPIC_PUT_LATENCY still).
A moment item's value is set back to 0 after each print. Two brokers that share a folder print each key twice.
"""

from offsetguard.sources.logs.pattern import LogKind, pattern

_NAME = r"[^@\]\n]{1,512}"
_BY_GROUP = (  # what the name in the first brackets may be, and what stands in the second ones
    r"(?:GROUP|SNDBCK|DLQ|PULL|CONSUME)_(?:GET|PUT|ACK|CK|OK|FAILED|FROM_DISK|TPS|RT)(?:_NUMS|_SIZE|_TPS|_RT)?"
    r"|GROUP_GET_FROM_DISK_(?:NUMS|SIZE)",
    f"<topic:{_NAME}>@<consumer_group:{_NAME}>",
)
_BY_QUEUE_AND_GROUP = (
    r"GROUP_GET_(?:LATENCY|FALL_SIZE|FALL_TIME)",
    f"<queue_id:unsigned>@<topic:{_NAME}>@<consumer_group:{_NAME}>",
)
_BY_TOPIC = (r"TOPIC_PUT_(?:NUMS|SIZE)", f"<topic:{_NAME}>")
_BY_QUEUE = (r"TOPIC_PUT_LATENCY", f"<queue_id:unsigned>@<topic:{_NAME}>")
_OTHERWISE = (r"[A-Z0-9_]{1,100}", r"<stats_key:[^\]\n]{1,1100}>")  # a cluster, an event
_FIGURES = (
    (
        "stats_counted",
        " AVGPT: ",
        "Stats In One <span:Minute|Hour|Day>, SUM: <sum:int> TPS: <tps:float> AVGPT: <average:float>",
        "a sum over the span, its rate per second, and the amount per call",
        (_BY_GROUP, _BY_QUEUE_AND_GROUP, _BY_TOPIC, _BY_QUEUE, _OTHERWISE),
    ),
    (
        "stats_timed",
        " AVGRT: ",
        "Stats In One <span:Minute|Hour|Day>, TIMES: <times:int> AVGRT: <average_ms:float>",
        "calls in the span and their mean time",
        (_BY_GROUP, _BY_QUEUE_AND_GROUP, _OTHERWISE),
    ),
    (
        "stats_moment",
        "Stats Every 5 Minutes, Value: ",
        "Stats Every 5 Minutes, Value: <value:int>",
        "the last value in 5 min: bytes (FALL_SIZE) or ms (FALL_TIME) that a group reads behind the end",
        (_BY_QUEUE_AND_GROUP, _OTHERWISE),
    ),
)

PATTERNS = tuple(
    pattern(
        (LogKind.STATS, LogKind.CLIENT),
        kind,
        f"^\\[<stats_name:{names}>\\] \\[{key}\\] {figures}",
        must_contain=must_contain,
        meaning=meaning,
        source="StatsItem, MomentStatsItem 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    )
    for kind, must_contain, figures, meaning, keys in _FIGURES
    for names, key in keys
)
