"""Which clients of a group went while others were there, round by round: each such time queues are dealt out anew.

A client that was listed in the round before and is not in this one has gone. Nothing is said of a round in which not
the same masters answered, or one of them was started since: it learns of each client by its next heartbeat. A group of
which nobody is left has no queue to deal out; that it comes and goes is told by others.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from offsetguard.collect.broker_reading import BrokerReading

KEPT_FOR = timedelta(minutes=45)
_MOST = 100  # the newest
_HEARTBEAT = timedelta(seconds=60)  # of all clients, after a master's start: 30 s, and a late one


def host_of(client_id: str) -> str:
    """Return what stays of a client's id when its process is started again: its address; ids are `ip@instance`."""
    return client_id.partition("@")[0]


def departures(
    group: str, masters: Sequence[BrokerReading], listed_before: frozenset[str], kept: Sequence[str], since: datetime
) -> list[str] | None:
    """Return `seconds since 1970, clients of its host before, client id` of each that went, oldest first.

    `listed_before`: the group's clients in the round before, which ended at `since`; `kept`: what that one returned.
    """
    answered = [one.answered_at for one in masters if one.answered_at is not None]
    if not answered:
        return list(kept) or None
    at = max(answered)
    listed = {
        client.client_id
        for one in masters
        if (connections := one.connections.get(group)) is not None
        for client in connections.connections
    }
    gone = listed_before - listed if listed and _are_all_known(group, masters, since) else frozenset()
    new = [
        f"{int(at.timestamp())} {sum(host_of(one) == host_of(client_id) for one in listed_before)} {client_id}"
        for client_id in sorted(gone)
    ]
    oldest = (at - KEPT_FOR).timestamp()
    return [*(one for one in kept if int(one.partition(" ")[0]) >= oldest), *new][-_MOST:] or None


def _are_all_known(group: str, masters: Sequence[BrokerReading], since: datetime) -> bool:
    """Whether all masters that know the group list its clients, and have had a heartbeat of each."""
    for one in masters:
        if one.groups is None or (group in one.groups and group not in one.connections):
            return False
        boot_at = one.runtime.boot_at if one.runtime is not None else None
        if boot_at is not None and boot_at > since - _HEARTBEAT:
            return False
    return True
