"""What a busy broker's clients feel of a collection: latencies of sends and pulls with and without it.

    uv run python benchmarks/busy_broker_latency.py [--rounds 3] [--seconds 60] [--every 60]

A real broker with 200 groups serves a producer that sends without a pause. A probe sends and pulls one message after
the other and measures each. Windows with and without `offsetguard collect` alternate (one round a minute, as the
product does; `--every 5` for twelve times that). The result is what a round adds to the latencies of its window; it
fails when that is more than 5 %. The collector, which has machines of its own in production, shares the cores here.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from many_groups import (
    OnlineGroups,
    Pipeline,
    commit_offsets,
    create_topics,
    send,
    send_messages,
    subscriptions,
)

from offsetguard.sources.rocketmq.requests import PullMessage
from offsetguard_peers.rocketmq.cluster import RocketMQCluster

GROUPS, TOPICS, MESSAGES_PER_QUEUE = 200, 40, 5
WARM_S = 15.0
ALLOWED = 1.05
BUSY_TOPIC, PROBE_TOPIC = "busy", "probe"
PAUSE_S = 0.002
BODY = b"x" * 500


def keep_busy(address: str, stop: threading.Event) -> None:
    """About 1,000 messages per second, so that neither the broker nor this machine is saturated."""
    with Pipeline(address) as pipeline:
        while not stop.wait(0.01):
            pipeline.ask_all([send(BUSY_TOPIC, number % 4, BODY) for number in range(10)])


def probe(address: str, seconds: float) -> tuple[list[float], list[float]]:
    """Return latencies of sends and of pulls, ms."""
    sends, pulls = [], []
    ends_at = time.perf_counter() + seconds
    pull = PullMessage(topic=PROBE_TOPIC, queue_id=0, queue_offset=0, max_msg_nums=8)
    with Pipeline(address) as pipeline:
        pipeline.ask_all([send(PROBE_TOPIC, 0, BODY)] * 8)
        while time.perf_counter() < ends_at:
            started = time.perf_counter()
            pipeline.ask_all([send(PROBE_TOPIC, 0, BODY)])
            sent = time.perf_counter()
            pipeline.ask_all([(int(pull.code), pull.ext_fields(), b"")])
            sends.append((sent - started) * 1000)
            pulls.append((time.perf_counter() - sent) * 1000)
            time.sleep(PAUSE_S)
    return sends, pulls


def collect_again_and_again(namesrv: str, stop: threading.Event, every_s: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).with_name("offsetguard")), "collect", "--namesrv", namesrv, "--out"]
        number = 0
        while not stop.is_set():
            subprocess.run([*command, f"{folder}/{number}"], capture_output=True, check=False)
            number += 1
            stop.wait(every_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="5.3.3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each window")
    parser.add_argument("--every", type=float, default=60.0, help="seconds from round to round")
    arguments = parser.parse_args()
    stop = threading.Event()
    with ExitStack() as stack:
        cluster = stack.enter_context(RocketMQCluster(arguments.version))
        address = cluster.masters[0].address
        groups = subscriptions(GROUPS, TOPICS)
        create_topics(
            address, [*sorted({topic for names in groups.values() for topic in names}), BUSY_TOPIC, PROBE_TOPIC]
        )
        send_messages(address, sorted({topic for names in groups.values() for topic in names}), MESSAGES_PER_QUEUE)
        stack.enter_context(OnlineGroups(address, groups))
        commit_offsets(address, groups, at_most=MESSAGES_PER_QUEUE)
        busy = threading.Thread(target=keep_busy, args=(address, stop))
        busy.start()
        stack.callback(lambda: (stop.set(), busy.join()))
        probe(address, min(arguments.seconds, WARM_S))  # warm
        measured: dict[bool, list[tuple[list[float], list[float]]]] = {False: [], True: []}
        for number in range(2 * arguments.rounds):
            collecting = bool(number % 2)
            ended = threading.Event()
            collector = threading.Thread(target=collect_again_and_again, args=(cluster.namesrv, ended, arguments.every))
            if collecting:
                collector.start()
            measured[collecting].append(probe(address, arguments.seconds))
            ended.set()
            if collecting:
                collector.join()
    worst = 0.0
    print("| latency | without, ms | with collection, ms | ratio |")
    print("|---|---|---|---|")
    for part, name in enumerate(("send", "pull")):
        for quantile, shown in ((0.5, "median"), (0.99, "99 %")):
            without, during = (
                statistics.median(_quantile(window[part], quantile) for window in measured[collecting])
                for collecting in (False, True)
            )
            print(f"| {name}, {shown} | {without:.3f} | {during:.3f} | {during / without:.3f} |")
            worst = max(worst, during / without)
    if worst > ALLOWED:
        sys.exit(f"more than the {ALLOWED - 1:.0%} that clients may feel")


def _quantile(values: list[float], quantile: float) -> float:
    return sorted(values)[int(len(values) * quantile)]


if __name__ == "__main__":
    main()
