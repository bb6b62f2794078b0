r"""Where a record begins, and what stands before its message. As data, like the patterns: Spark uses the same.

A line that begins with a time stamp (`RECORD_START`) begins a record; every other line continues the record before it:
stack traces, and remarks of brokers with a line break in them. A record's message is what follows the layout's head,
the continuation lines included.

Source: logback_broker.xml of 4.9.8, rmq.broker.logback.xml and rmq.client.logback.xml of 5.5.0 (as in 5.3.3), the
client's built-in layout of 4.9.8; live output of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass

SECOND = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
_LEVEL = r"([A-Z]{4,5})"
RECORD_START = f"^{SECOND}[ ,.]"


@dataclass(frozen=True, slots=True)
class Layout:
    """The head of a record; `fields` name the groups. Brokers print GMT+8, 4.x clients the zone of their host."""

    name: str
    regex: str
    fields: tuple[str, ...]
    example: str


# In this order: a line of stats.log would pass for one of broker.log with a strange thread name.
LAYOUTS = (
    Layout(
        "client 5.x",
        f"^({SECOND}\\.[0-9]{{3}}) {_LEVEL} {{1,2}}\\[[^\\]\\n]{{0,40}}\\] \\[([^\\]\\n]{{0,255}})\\] "
        r"\[[^\]\n]{0,255}\] - ",
        ("at", "level", "thread"),
        "2026-11-21 16:49:33.210 INFO  [21613] [main] [RocketmqRemoting#?:?] - ",
    ),
    Layout(
        "client 4.x",
        f"^({SECOND},[0-9]{{3}}) {_LEVEL} {{1,2}}[^ \\n]{{1,255}} - ",
        ("at", "level"),
        "2026-11-20 22:47:01,278 WARN RocketmqClient - ",
    ),
    Layout("stats", f"^({SECOND}) {_LEVEL} - ", ("at", "level"), "2026-11-21 06:46:00 INFO - "),
    Layout("watermark", f"^({SECOND}) - ", ("at",), "2026-11-21 06:44:37 - "),
    Layout(
        "broker",
        f"^({SECOND}) {_LEVEL} ([^\\n]{{1,255}}?) - ",
        ("at", "level", "thread"),
        "2026-11-21 06:45:30 WARN PullMessageThread_3 - ",
    ),
)
