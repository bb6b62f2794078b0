"""watermark.log and protection.log: requests that wait in the broker, and groups that it switched off.

Source: BrokerController of 4.9.7, 4.9.8, 5.3.3 and 5.5.0. Every queue of requests is printed each second.
"""

from __future__ import annotations

from offsetguard.sources.logs.pattern import INT, LogKind, Pattern, integers, text

PATTERNS = (
    Pattern(
        kind="request_queue",
        log_kinds=(LogKind.WATERMARK,),
        must_contain="[WATERMARK] ",
        regex=r"^\[WATERMARK\] ([A-Za-z][A-Za-z ]{0,60}) Queue Size: " + f"{INT} SlowTimeMills: {INT}",
        fields=(*text("request_kind"), *integers("waiting_count", "oldest_wait_ms")),
        meaning="how many requests of a kind wait for a thread, and how long the oldest has waited",
        source="BrokerController 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    Pattern(
        kind="consumer_disabled",
        log_kinds=(LogKind.WATERMARK, LogKind.BROKER),
        must_contain="[PROTECT_BROKER] the consumer[",
        regex=r"^\[PROTECT_BROKER\] the consumer\[([^\]\n]{1,512})\] consume slowly, " + f"{INT} bytes, disable it",
        fields=(*text("consumer_group"), *integers("behind_bytes")),
        meaning="the broker switched a slow group off (disableConsumeIfConsumerReadSlowly)",
        source="BrokerController 4.9.7, 5.5.0",
    ),
)
