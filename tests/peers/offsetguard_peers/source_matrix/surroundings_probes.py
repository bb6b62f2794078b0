"""What is around the brokers' answers: moved offsets, log and state files, POP groups, access, and name servers."""

import asyncio
import dataclasses
import re
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from offsetguard.model.errors import BrokerRefused, RocketMQError
from offsetguard.sources.rocketmq import brokers, offset_table
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.requests import (
    GetBrokerClusterInfo,
    GetBrokerConfig,
    GetMinOffset,
    PullMessage,
    Request,
)
from offsetguard_peers.rocketmq.security import READER
from offsetguard_peers.source_matrix import sources
from offsetguard_peers.source_matrix.stage import (
    ABSENT_AFTER_S,
    ANSWERED_WITHIN_MS,
    BILLING,
    BROADCASTING,
    MOVED,
    ORDERLY,
    ORDERS,
    POPPER,
    SEEN_WITHIN_S,
    Cells,
    Probes,
    cell_of,
)

MOVED_EVENT_TOPIC = "OFFSET_MOVED_EVENT"
PULL_QUEUE_LINE = re.compile(r"\[WATERMARK\] Pull Queue Size: \d+")
REBALANCE_LINE = re.compile(rf"rebalanced.*{ORDERLY}")
LOCK_LINE = re.compile(rf"(?:message queue not locked, I got it|RebalanceLockManager#tryLock).*{ORDERLY}")


async def moves(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    line = f"PULL_OFFSET_MOVED:correction offset. topic={ORDERS}, groupId="
    lines = {
        role: await _line_in(
            probes,
            probes.broker(role).log_folder,
            re.compile(re.escape(line + MOVED[role])),
            within_s=SEEN_WITHIN_S if role == sources.MASTER else ABSENT_AFTER_S,  # slaves do not say so
        )
        for role in sources.REPLICAS
    }
    return {
        "offset_moved_event": {role: await _event(probes, role) for role in sources.REPLICAS},
        "offset_moved_line": lines,
    }


async def _event(probes: Probes, role: str) -> str:
    """Whether the topic of events holds the one of our pull beyond the end."""

    async def ask() -> str:
        try:
            start = await probes.client.call(probes.address(role), GetMinOffset(MOVED_EVENT_TOPIC, 0))
        except BrokerRefused as refused:
            return cell_of(refused)
        return await probes.cell(role, PullMessage(MOVED_EVENT_TOPIC, 0, start), lambda pull: pull.messages)

    is_4 = probes.stage.cluster.version.startswith("4.")
    return await probes.until(ask, lambda cell: cell != sources.NO, within_s=SEEN_WITHIN_S if is_4 else ABSENT_AFTER_S)


async def _line_in(probes: Probes, folder: Path, line: re.Pattern[str], *, within_s: float = SEEN_WITHIN_S) -> str:
    """Return the name of the log file that holds a line; NO when none does."""

    async def look() -> str:
        texts = {file.name: file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.glob("*.log"))}
        return next((name for name, text in texts.items() if line.search(text)), sources.NO)

    return await probes.until(look, lambda cell: cell != sources.NO, within_s=within_s)


async def files(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""

    def tells(role: str, name: str, found: Callable[[bytes], object]) -> str:
        file = probes.broker(role).store / "config" / name
        return sources.YES if file.exists() and found(file.read_bytes()) else sources.NO

    files: Mapping[str, tuple[str, Callable[[bytes], object]]] = {
        "consumer_offset_file": (
            "consumerOffset.json",
            lambda text: (ORDERS, BILLING) in offset_table.all_consumer_offsets(text).offsets,
        ),
        "topics_file": ("topics.json", lambda text: ORDERS in brokers.topic_config_table(text)),
        "groups_file": (
            "subscriptionGroup.json",
            lambda text: BILLING in brokers.subscription_group_table(text),
        ),
    }
    cells = {
        source: {role: tells(role, name, found) for role in sources.REPLICAS} for source, (name, found) in files.items()
    }
    logs = {role: probes.broker(role).log_folder for role in sources.REPLICAS}
    cells["pull_queue_line"] = {role: await _line_in(probes, logs[role], PULL_QUEUE_LINE) for role in sources.REPLICAS}
    cells["lock_line"] = {
        role: await _line_in(
            probes, logs[role], LOCK_LINE, within_s=SEEN_WITHIN_S if role == sources.MASTER else ABSENT_AFTER_S
        )
        for role in sources.REPLICAS
    }
    return cells


async def client_files(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    consumers = probes.stage.consumers
    offsets = consumers.local_offsets_file(probes.stage.client_id(BROADCASTING), BROADCASTING)

    async def look() -> str:
        return sources.YES if offsets.exists() else sources.NO

    there = await probes.until(look, lambda cell: cell == sources.YES)  # the first time 10 s after a client's start
    line = await _line_in(probes, consumers.log_file.parent, REBALANCE_LINE)
    return {"rebalance_line": {sources.CLIENT: line}, "client_offsets_file": {sources.CLIENT: there}}


async def pop_in_flight(probes: Probes) -> dict[str, Cells]:
    """Measure what brokers' own pages of metrics say of a POP group."""
    if not probes.stage.pops:
        return {"pop_in_flight": dict.fromkeys(sources.REPLICAS, sources.NOT_IN_VERSION)}
    return {
        "pop_in_flight": {
            role: await asyncio.to_thread(_exported, probes.stage.exporter_url(broker_id))
            for broker_id, role in enumerate(sources.REPLICAS)
        }
    }


def _exported(url: str) -> str:
    """Whether the exporter's page has the popper's messages in flight."""
    with urllib.request.urlopen(url, timeout=SEEN_WITHIN_S) as answer:
        lines = answer.read().decode().splitlines()
    return sources.YES if any("inflight_messages{" in line and f'"{POPPER}"' in line for line in lines) else sources.NO


async def access(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    requests: Mapping[str, Request[Any]] = {
        sources.NAME_SERVER: GetBrokerClusterInfo(),
        sources.MASTER: GetBrokerConfig(),
        sources.SLAVE: GetBrokerConfig(),
    }
    wrong = dataclasses.replace(READER, secret_key="wrong")
    cells: dict[str, Cells] = {"tls": {}, "unsigned": {}, "wrong_password": {}, "read_only_account": {}}
    for role, request in requests.items():
        address = probes.address(role)
        plain = await _asked(RocketMQClient(ANSWERED_WITHIN_MS, READER), address, request)
        logins = {"read_only_account": READER, "unsigned": None, "wrong_password": wrong}
        for source, login in logins.items():
            cells[source][role] = await _asked(
                RocketMQClient(ANSWERED_WITHIN_MS, login, tls=probes.tls), address, request
            )
        encrypted = cells["read_only_account"][role]
        cells["tls"][role] = (
            sources.YES if (plain, encrypted) == ("closed", sources.YES) else f"plain: {plain}, TLS: {encrypted}"
        )
    return cells


async def _asked(client: RocketMQClient, address: str, request: Request[Any]) -> str:
    """Ask once with a client of its own."""
    async with client:
        try:
            await client.call(address, request)
        except BrokerRefused as refused:
            return cell_of(refused)
        except RocketMQError:
            return "closed"
        return sources.YES


async def reached_where_listed(probes: Probes, role: str) -> str:
    """Ask a replica where the name servers list it, over TLS: the certificate is not for that address."""
    client = RocketMQClient(ANSWERED_WITHIN_MS, READER, tls=probes.tls)
    return await _asked(client, probes.broker(role).listed_address, GetBrokerConfig())
