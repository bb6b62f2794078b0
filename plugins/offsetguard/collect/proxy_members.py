"""Who is connected to the proxies that the configuration names: brokers do not see those clients.

A proxy in CLUSTER mode answers 203 for the groups of its clients at its remoting port, and "not online" for all others.
Proxies tell each other of their clients, but not at once: each is asked, and only what all of them said counts.
Source: ConsumerManagerActivity (proxy 5.5.0); a live proxy 5.5.0.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from offsetguard.collect.manifest import Gap, Outcome
from offsetguard.collect.request_ledger import outcome_of
from offsetguard.errors import RocketMQError
from offsetguard.rocketmq.refusals import ConsumerNotOnline
from offsetguard.rocketmq.requests import GetConsumerConnectionList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.collect.request_ledger import RequestLedger
    from offsetguard.rocketmq.asker import Asker

MAX_GROUPS = 2_000
ProxyMembers = dict[str, frozenset[str]]  # consumer group -> client ids, over all proxies; none = offline there, too


async def read_proxy_members(
    asker: Asker, proxies: Sequence[str], groups: Sequence[str], ledger: RequestLedger
) -> ProxyMembers:
    """Ask every proxy about `groups`; a group of which one of them did not tell is missing in the answer.

    A proxy that fails is one gap, whatever the number of groups. Of very many groups the first MAX_GROUPS are asked.
    """
    asked = groups[:MAX_GROUPS]
    if not proxies or not asked:
        return {}
    reason = f"a proxy is asked about {MAX_GROUPS} groups in a round, suspects first"
    ledger.leave_out("members of groups that no broker sees", len(groups) - len(asked), reason)
    answers = await asyncio.gather(*(_ask(asker, proxy, asked, ledger) for proxy in proxies))
    told = [group for group in asked if all(group in answer for answer in answers)]
    return {group: frozenset[str]().union(*(answer[group] for answer in answers)) for group in told}


async def _ask(asker: Asker, proxy: str, groups: Sequence[str], ledger: RequestLedger) -> ProxyMembers:
    outcomes = await asker.call_many(proxy, [GetConsumerConnectionList(group) for group in groups])
    found: ProxyMembers = {}
    first_failure: tuple[Outcome, RocketMQError] | None = None
    for group, outcome in zip(groups, outcomes, strict=True):
        if isinstance(outcome, ConsumerNotOnline):
            ledger.count(Outcome.ANSWERED)
            found[group] = frozenset()
        elif isinstance(outcome, RocketMQError):
            ledger.count(outcome_of(outcome))
            first_failure = first_failure or (outcome_of(outcome), outcome)
        else:
            ledger.count(Outcome.ANSWERED)
            found[group] = frozenset(client.client_id for client in outcome.connections)
    if first_failure is not None:
        ledger.add_gap(_gap(proxy, len(groups) - len(found), *first_failure))
    return found


def _gap(proxy: str, count: int, outcome: Outcome, error: RocketMQError) -> Gap:
    return Gap(
        address=proxy,
        broker_name=None,
        broker_id=None,
        what=f"members of {count} groups, from the proxy",
        outcome=outcome,
        reason=f"{error}; check proxies in the configuration: the remoting port is wanted, 8080 by default",
    )
