"""stats.log: what a replica counts, each minute, hour and day. A client writes such lines into its own log.

Source: StatsItem, MomentStatsItem, BrokerStatsManager, ConsumerStatsManager of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
Latencies are printed as TIMES and AVGRT since 4.7, as SUM, TPS and AVGPT before (and 5.x TOPIC_PUT_LATENCY still).
A moment item's value is set back to 0 after each print. Two brokers that share a folder print each key twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsetguard.sources.logs.pattern import FLOAT, INT, Field, LogKind, Pattern, floats, integers, text

_LOGS = (LogKind.STATS, LogKind.CLIENT)
_NAME_IN_KEY = r"([^@\]\n]{1,512})"


@dataclass(frozen=True, slots=True)
class _Key:
    """What stands in the second brackets, by the name in the first."""

    names: str
    regex: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class _Figures:
    kind: str
    must_contain: str
    regex: str
    fields: tuple[Field, ...]
    meaning: str
    keys: tuple[_Key, ...]


_BY_GROUP = _Key(
    r"(?:GROUP|SNDBCK|DLQ|PULL|CONSUME)_(?:GET|PUT|ACK|CK|OK|FAILED|FROM_DISK|TPS|RT)(?:_NUMS|_SIZE|_TPS|_RT)?"
    r"|GROUP_GET_FROM_DISK_(?:NUMS|SIZE)",
    f"{_NAME_IN_KEY}@{_NAME_IN_KEY}",
    text("topic", "consumer_group"),
)
_BY_QUEUE_AND_GROUP = _Key(
    r"GROUP_GET_(?:LATENCY|FALL_SIZE|FALL_TIME)",
    f"([0-9]{{1,10}})@{_NAME_IN_KEY}@{_NAME_IN_KEY}",
    (*integers("queue_id"), *text("topic", "consumer_group")),
)
_BY_TOPIC = _Key(r"TOPIC_PUT_(?:NUMS|SIZE)", _NAME_IN_KEY, text("topic"))
_BY_QUEUE = _Key(r"TOPIC_PUT_LATENCY", f"([0-9]{{1,10}})@{_NAME_IN_KEY}", (*integers("queue_id"), *text("topic")))
_OTHERWISE = _Key(r"[A-Z0-9_]{1,100}", r"([^\]\n]{1,1100})", text("stats_key"))  # a cluster, an event
_FIGURES = (
    _Figures(
        "stats_counted",
        " AVGPT: ",
        f"Stats In One (Minute|Hour|Day), SUM: {INT} TPS: {FLOAT} AVGPT: {FLOAT}",
        (*text("span"), *integers("sum"), *floats("tps", "average")),
        "a sum over the span, its rate per second, and the amount per call",
        (_BY_GROUP, _BY_QUEUE_AND_GROUP, _BY_TOPIC, _BY_QUEUE, _OTHERWISE),
    ),
    _Figures(
        "stats_timed",
        " AVGRT: ",
        f"Stats In One (Minute|Hour|Day), TIMES: {INT} AVGRT: {FLOAT}",
        (*text("span"), *integers("times"), *floats("average_ms")),
        "calls in the span and their mean time",
        (_BY_GROUP, _BY_QUEUE_AND_GROUP, _OTHERWISE),
    ),
    _Figures(
        "stats_moment",
        "Stats Every 5 Minutes, Value: ",
        f"Stats Every 5 Minutes, Value: {INT}",
        integers("value"),
        "the last value in 5 min: bytes (FALL_SIZE) or ms (FALL_TIME) that a group reads behind the end",
        (_BY_QUEUE_AND_GROUP, _OTHERWISE),
    ),
)

PATTERNS = tuple(
    Pattern(
        kind=figures.kind,
        log_kinds=_LOGS,
        must_contain=figures.must_contain,
        regex=f"^\\[({key.names})\\] \\[{key.regex}\\] {figures.regex}",
        fields=(*text("stats_name"), *key.fields, *figures.fields),
        meaning=figures.meaning,
        source="StatsItem, MomentStatsItem 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    )
    for figures in _FIGURES
    for key in figures.keys
)
