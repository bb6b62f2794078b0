"""How long one broker's answer to GET_ALL_CONSUMER_OFFSET takes to decode: `uv run python benchmarks/<this file>`.

The body has the size that was seen on a real broker: 5,100 (topic, group) pairs, 81,600 offsets; and ten times it.
"""

from __future__ import annotations

import statistics
import time

from offsetguard.rocketmq.body_decoders import all_consumer_offsets

QUEUES = 16
ROUNDS = 5


def body_with(pairs: int) -> bytes:
    """Write a body as fastjson does: numbers as keys, not quoted."""
    offsets = ",".join(f"{queue_id}:{100_000_000 + queue_id}" for queue_id in range(QUEUES))
    tables = (f'"TP_order_event_{n % 200:03}@GID_svc_order_{n:05}":{{{offsets}}}' for n in range(pairs))
    return ('{"dataVersion":{"counter":1},"offsetTable":{' + ",".join(tables) + "}}").encode()


def main() -> None:
    for pairs in (5_100, 51_000):
        body = body_with(pairs)
        durations_ms = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            table = all_consumer_offsets(body)
            durations_ms.append((time.perf_counter() - started) * 1000)
        offsets = sum(map(len, table.offsets.values()))
        median_ms = statistics.median(durations_ms)
        figures = f"median {median_ms:6.0f} ms, worst {max(durations_ms):6.0f} ms"
        print(f"{len(body) / 1e6:5.1f} MB, {offsets:7,} offsets: {figures}")


if __name__ == "__main__":
    main()
