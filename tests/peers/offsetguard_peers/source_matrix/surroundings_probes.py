"""What is around the brokers' answers: moved offsets, log and state files, POP groups, access, and name servers."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from offsetguard.model.errors import BrokerRefused, RocketMQError
from offsetguard.sources.rocketmq import broker_settings, offset_table
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetBrokerClusterInfo,
    GetBrokerConfig,
    GetMinOffset,
    GetRouteInfoByTopic,
    PullMessage,
    Request,
    ViewBrokerStatsData,
)
from offsetguard_peers.rocketmq.extra_requests import GetAllTopicListFromNameServer
from offsetguard_peers.rocketmq.security import READER
from offsetguard_peers.source_matrix.sources import (
    CLIENT,
    MASTER,
    NAME_SERVER,
    NO,
    NOT_IN_VERSION,
    REPLICAS,
    SLAVE,
    YES,
)
from offsetguard_peers.source_matrix.stage import (
    ABSENT_AFTER_S,
    ANSWERED_WITHIN_MS,
    BILLING,
    BROADCASTING,
    MOVED,
    ORDERLY,
    ORDERS,
    POPPED,
    POPPER,
    SEEN_WITHIN_S,
    Cells,
    Probes,
    cell_of,
)

AnswerT = TypeVar("AnswerT")

MOVED_EVENT_TOPIC = "OFFSET_MOVED_EVENT"
PULL_QUEUE_LINE = re.compile(r"\[WATERMARK\] Pull Queue Size: \d+")
REBALANCE_LINE = re.compile(rf"rebalanced.*{ORDERLY}")
LOCK_LINE = re.compile(rf"(?:message queue not locked, I got it|RebalanceLockManager#tryLock).*{ORDERLY}")


async def moves(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    line = f"PULL_OFFSET_MOVED:correction offset. topic={ORDERS}, groupId="
    lines = {
        role: await _line_in(
            probes.broker(role).log_folder,
            re.compile(re.escape(line + MOVED[role])),
            within_s=SEEN_WITHIN_S if role == MASTER else ABSENT_AFTER_S,  # slaves do not say so
        )
        for role in REPLICAS
    }
    return {
        "offset_moved_event": {role: await _event(probes, role) for role in REPLICAS},
        "offset_moved_line": lines,
    }


async def _event(probes: Probes, role: str) -> str:
    """Whether the topic of events holds the one of our pull beyond the end."""
    is_4 = probes.stage.cluster.version.startswith("4.")
    deadline = time.monotonic() + (SEEN_WITHIN_S if is_4 else ABSENT_AFTER_S)
    while True:
        try:
            start = await probes.client.call(probes.address(role), GetMinOffset(MOVED_EVENT_TOPIC, 0))
            pull = PullMessage(MOVED_EVENT_TOPIC, 0, start)
            if (await probes.client.call(probes.address(role), pull)).messages:
                return YES
        except BrokerRefused as refused:
            return cell_of(refused)
        if time.monotonic() > deadline:
            return NO
        await asyncio.sleep(0.2)


async def _line_in(folder: Path, line: re.Pattern[str], *, within_s: float = ABSENT_AFTER_S) -> str:
    """Return the name of the log file that holds a line; NO when none does."""
    deadline = time.monotonic() + within_s
    while True:
        for file in sorted(folder.glob("*.log")):
            if line.search(file.read_text(encoding="utf-8", errors="replace")):
                return file.name
        if time.monotonic() > deadline:
            return NO
        await asyncio.sleep(0.2)


async def files(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""

    def tells(role: str, name: str, found: Callable[[bytes], object]) -> str:
        file = probes.broker(role).store / "config" / name
        return YES if file.exists() and found(file.read_bytes()) else NO

    files: Mapping[str, tuple[str, Callable[[bytes], object]]] = {
        "consumer_offset_file": (
            "consumerOffset.json",
            lambda text: (ORDERS, BILLING) in offset_table.all_consumer_offsets(text).offsets,
        ),
        "topics_file": ("topics.json", lambda text: ORDERS in broker_settings.topic_config_table(text).topics),
        "groups_file": (
            "subscriptionGroup.json",
            lambda text: BILLING in broker_settings.subscription_group_table(text).groups,
        ),
    }
    cells = {source: {role: tells(role, name, found) for role in REPLICAS} for source, (name, found) in files.items()}
    cells["pull_queue_line"] = {
        role: await _line_in(probes.broker(role).log_folder, PULL_QUEUE_LINE, within_s=SEEN_WITHIN_S)
        for role in REPLICAS
    }
    cells["lock_line"] = {
        MASTER: await _line_in(probes.broker(MASTER).log_folder, LOCK_LINE, within_s=SEEN_WITHIN_S),
        SLAVE: await _line_in(probes.broker(SLAVE).log_folder, LOCK_LINE),
    }
    return cells


async def client_files(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    consumers = probes.stage.consumers
    offsets = consumers.local_offsets_file(probes.stage.client_id(BROADCASTING), BROADCASTING)
    deadline = time.monotonic() + SEEN_WITHIN_S  # the first time 10 s after a client's start
    while not offsets.exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    line = await _line_in(consumers.log_file.parent, REBALANCE_LINE, within_s=SEEN_WITHIN_S)
    return {"rebalance_line": {CLIENT: line}, "client_offsets_file": {CLIENT: YES if offsets.exists() else NO}}


async def pop(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    if not probes.stage.pops:
        never = dict.fromkeys(REPLICAS, NOT_IN_VERSION)
        return {"pop_recognised": never, "pop_consumer_offset": never, "pop_in_flight": never}
    return {
        "pop_recognised": await probes.both(
            ViewBrokerStatsData("GROUP_CK_NUMS", f"{POPPED}@{POPPER}"), lambda stats: stats is not None
        ),
        "pop_consumer_offset": await probes.both(
            GetAllConsumerOffset(), lambda answer: (POPPED, POPPER) in answer.offsets
        ),
        "pop_in_flight": {
            role: await asyncio.to_thread(_exported, probes.stage.exporter_url(broker_id))
            for broker_id, role in enumerate(REPLICAS)
        },
    }


def _exported(url: str) -> str:
    """Whether the exporter's page has the popper's messages in flight."""
    with urllib.request.urlopen(url, timeout=SEEN_WITHIN_S) as answer:
        lines = answer.read().decode().splitlines()
    return YES if any("inflight_messages{" in line and f'"{POPPER}"' in line for line in lines) else NO


async def access(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    requests: Mapping[str, Request[Any]] = {
        NAME_SERVER: GetBrokerClusterInfo(),
        MASTER: GetBrokerConfig(),
        SLAVE: GetBrokerConfig(),
    }
    wrong = dataclasses.replace(READER, secret_key="wrong")
    cells: dict[str, Cells] = {"tls": {}, "unsigned": {}, "wrong_password": {}, "read_only_account": {}}
    for role, request in requests.items():
        plain = await _asked(RocketMQClient(ANSWERED_WITHIN_MS, READER), probes.address(role), request)
        encrypted = await _asked(
            RocketMQClient(ANSWERED_WITHIN_MS, READER, tls=probes.tls), probes.address(role), request
        )
        cells["tls"][role] = YES if (plain, encrypted) == ("closed", YES) else f"plain: {plain}, TLS: {encrypted}"
        unsigned = RocketMQClient(ANSWERED_WITHIN_MS, tls=probes.tls)
        cells["unsigned"][role] = await _asked(unsigned, probes.address(role), request)
        mistaken = RocketMQClient(ANSWERED_WITHIN_MS, wrong, tls=probes.tls)
        cells["wrong_password"][role] = await _asked(mistaken, probes.address(role), request)
        cells["read_only_account"][role] = encrypted
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
        return YES


async def name_servers(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""

    async def cell(request: Request[AnswerT], tells: Callable[[AnswerT], object]) -> Cells:
        return {NAME_SERVER: await probes.cell(NAME_SERVER, request, tells)}

    listed = {broker.broker_id: broker.listed_address for broker in probes.stage.cluster.brokers}
    return {
        "listed_brokers": await cell(
            GetBrokerClusterInfo(), lambda info: [dict(data.addresses) for data in info.brokers] == [listed]
        ),
        "route": await cell(GetRouteInfoByTopic(ORDERS), lambda route: route.queues),
        "all_topics": await cell(GetAllTopicListFromNameServer(), lambda answer: ORDERS in answer),
    }


async def reached_where_listed(probes: Probes, role: str) -> str:
    """Ask a replica where the name servers list it, over TLS: the certificate is not for that address."""
    client = RocketMQClient(ANSWERED_WITHIN_MS, READER, tls=probes.tls)
    return await _asked(client, probes.broker(role).listed_address, GetBrokerConfig())
