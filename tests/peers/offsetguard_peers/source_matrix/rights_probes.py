"""Finds out which rights an account needs for each request that the collector sends: it starts with none."""

import re
from typing import Any

from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq import requests as ask_for
from offsetguard.sources.rocketmq.codes import AccessDenied
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.requests import Request
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.asking_client import AskingClient
from offsetguard_peers.rocketmq.extra_requests import (
    GetConsumerListByGroup,
    QueryConsumerOffset,
    QueryTopicConsumeByWho,
)
from offsetguard_peers.rocketmq.security import NEWCOMER
from offsetguard_peers.source_matrix.sources import ANY_ACCOUNT, MASTER, SUB_RIGHT
from offsetguard_peers.source_matrix.stage import ANSWERED_WITHIN_MS, BILLING, ORDERLY, ORDERS, Cells, Probes

ACTIONS = ("Get", "Sub", "List")  # in the order in which they are tried
MISSING_RIGHT = re.compile(r"no permission to access (\w+):")


def _requests(probes: Probes) -> list[Request[Any]]:
    return [
        ask_for.GetTopicStatsInfo(ORDERS),
        ask_for.GetAllConsumerOffset(),
        ask_for.GetConsumeStats(BILLING),
        ask_for.QueryConsumeTimeSpan(ORDERS, BILLING),
        QueryConsumerOffset(BILLING, ORDERS, 0),
        ask_for.GetMinOffset(ORDERS, 0),
        ask_for.GetMaxOffset(ORDERS, 0),
        ask_for.GetEarliestMsgStoretime(ORDERS, 0),
        ask_for.SearchOffsetByTimestamp(ORDERS, 0, 1),
        ask_for.ViewBrokerStatsData("TOPIC_PUT_NUMS", ORDERS),
        ask_for.GetConsumerConnectionList(ORDERLY),
        GetConsumerListByGroup(ORDERLY),
        ask_for.GetConsumerRunningInfo(ORDERLY, probes.stage.client_id(ORDERLY)),
        ask_for.GetBrokerRuntimeInfo(),
        ask_for.GetBrokerConfig(),
        ask_for.GetAllTopicConfig(),
        ask_for.GetAllSubscriptionGroupConfig(),
        ask_for.GetSystemTopicListFromBroker(),
        QueryTopicConsumeByWho(ORDERS),
        ask_for.PullMessage(ORDERS, 0, 0),
    ]


async def rights(probes: Probes) -> dict[str, Cells]:
    """Return request name -> the rights that the master wants for it."""
    broker = probes.broker(MASTER)
    if probes.stage.cluster.version.startswith("4."):
        return {request.code.name: {MASTER: await _needed_on_4(probes, request)} for request in _requests(probes)}
    admin = Admin(probes.stage.cluster, signed=True)
    cells: dict[str, Cells] = {}
    for number, request in enumerate(_requests(probes)):
        account = Credentials(f"{NEWCOMER.access_key}-{number}", NEWCOMER.secret_key)
        admin.create_account(broker, account, {"Topic:nothing": ["Get"]})
        async with AskingClient(ANSWERED_WITHIN_MS, account, tls=probes.tls) as client:
            cells[request.code.name] = {MASTER: await _needed(client, admin, account, probes, request)}
    return cells


async def _needed_on_4(probes: Probes, request: Request[Any]) -> str:
    """Ask as an account whose rights are all DENY; the reader's are SUB, and it has asked everything already."""
    async with AskingClient(ANSWERED_WITHIN_MS, NEWCOMER, tls=probes.tls) as client:
        try:
            await client.call(probes.address(MASTER), request)
        except AccessDenied:
            return SUB_RIGHT
        except BrokerRefused:
            pass
        return ANY_ACCOUNT


async def _needed(
    client: AskingClient, admin: Admin, account: Credentials, probes: Probes, request: Request[Any]
) -> str:
    """Grant what the broker says is missing, one right after the other, until it answers."""
    granted: dict[str, list[str]] = {}  # kind of resource -> actions; the last one of a kind is the right one
    broker = probes.broker(MASTER)
    for _ in range(3 * len(ACTIONS)):
        try:
            await client.call(broker.address, request)
        except AccessDenied as denied:
            missing = MISSING_RIGHT.search(denied.remark or "")
            if missing is None or len(granted.get(missing[1], ())) == len(ACTIONS):
                return f"{denied.code}: {denied.remark}"
            tried = granted.setdefault(missing[1], [])
            tried.append(ACTIONS[len(tried)])
            admin.grant(broker, account.access_key, {f"{kind}:*": [names[-1]] for kind, names in granted.items()})
            continue
        except BrokerRefused:
            pass  # let in, and refused for what it asked
        return ", ".join(f"{kind} {names[-1]}" for kind, names in sorted(granted.items())) or ANY_ACCOUNT
    return "no end"
