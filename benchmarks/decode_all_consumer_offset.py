"""How long the bodies that make up a round take to decode: `uv run python benchmarks/<this file>`.

One answer of 43 with the size that was seen on a real broker (5,100 (topic, group) pairs, 81,600 offsets) and with ten
times it, and the small ones of which a round has a thousand: 202 and 208 with 16 and 80 queues, 203 with six topics.
"""

from __future__ import annotations

import json
import statistics
import time
import tracemalloc
from collections.abc import Callable

from offsetguard.sources.rocketmq.clients import consumer_connections
from offsetguard.sources.rocketmq.offset_table import all_consumer_offsets
from offsetguard.sources.rocketmq.offsets import consume_stats, topic_stats

QUEUES = 16
ROUNDS = 7


def offsets_body(pairs: int) -> bytes:
    """Write a body of 43 as fastjson does: numbers as keys, not quoted."""
    offsets = ",".join(f"{queue_id}:{100_000_000 + queue_id}" for queue_id in range(QUEUES))
    tables = (f'"TP_order_event_{n % 200:03}@GID_svc_order_{n:05}":{{{offsets}}}' for n in range(pairs))
    return ('{"dataVersion":{"counter":1},"offsetTable":{' + ",".join(tables) + "}}").encode()


def topic_stats_body() -> bytes:
    """Write a body of 202: objects as keys."""
    figures = '{"lastUpdateTimestamp":1795247612043,"maxOffset":100000020,"minOffset":99000000}'
    return f'{{"offsetTable":{{{_by_queue(1, figures)}}},"topicPutTps":0.0}}'.encode()


def consume_stats_body() -> bytes:
    """Write a body of 208 with five topics."""
    figures = (
        '{"brokerOffset":100000020,"consumerOffset":100000011,"lastTimestamp":1795247608068,"pullOffset":100000011}'
    )
    return f'{{"consumeTps":0.0,"offsetTable":{{{_by_queue(5, figures)}}}}}'.encode()


def connections_body() -> bytes:
    """Write a body of 203 with one client and six subscriptions; strict JSON."""
    client = {"clientAddr": "10.0.0.1:47510", "clientId": "10.0.0.1@1", "language": "JAVA", "version": 479}
    subscription = {"expressionType": "TAG", "subString": "*", "subVersion": 1795248862377, "tagsSet": []}
    table = {f"TP_order_event_{n:03}": {**subscription, "topic": f"TP_order_event_{n:03}"} for n in range(6)}
    document = {"connectionSet": [client], "messageModel": "CLUSTERING", "subscriptionTable": table}
    return json.dumps(document, separators=(",", ":")).encode()


def _by_queue(topics: int, figures: str) -> str:
    return ",".join(
        f'{{"brokerName":"broker-a","queueId":{queue_id},"topic":"TP_order_event_{topic:03}"}}:{figures}'
        for topic in range(topics)
        for queue_id in range(QUEUES)
    )


def median_ms(decode: Callable[[bytes], object], body: bytes, times: int) -> float:
    """Return how long one body takes, CPU time."""
    durations_ms = []
    for _ in range(ROUNDS):
        started = time.thread_time()
        for _ in range(times):
            decode(body)
        durations_ms.append((time.thread_time() - started) * 1000 / times)
    return statistics.median(durations_ms)


def kept_bytes(body: bytes) -> int:
    """Return what the decoded offsets occupy."""
    tracemalloc.start()
    table = all_consumer_offsets(body)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del table
    return kept


def main() -> None:
    """Print one line for each body."""
    cases: list[tuple[str, Callable[[bytes], object], bytes, int]] = [
        ("43, 81,600 offsets", all_consumer_offsets, offsets_body(5_100), 1),
        ("43, 816,000 offsets", all_consumer_offsets, offsets_body(51_000), 1),
        ("202, 16 queues", topic_stats, topic_stats_body(), 200),
        ("203, 6 subscriptions", consumer_connections, connections_body(), 200),
        ("208, 80 queues", consume_stats, consume_stats_body(), 50),
    ]
    for name, decode, body, times in cases:
        print(f"{name:<22}{len(body):>11,} bytes: {median_ms(decode, body, times):9.3f} ms")
    for pairs in (5_100, 51_000):
        body = offsets_body(pairs)
        print(f"{pairs * QUEUES:,} decoded offsets occupy {kept_bytes(body) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
