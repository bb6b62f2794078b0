"""Cases of lock waits and subscriptions as rows of `log_events` and `client_snapshots`, and as the facts expected.

The cases stand in tests/unit/facts/*.yml.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from offsetguard.model.intervals import Interval
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS, LOG_EVENTS, Table
from offsetguard.tables.log_facts import LockWaitFacts, SubscriptionFacts
from offsetguard_peers.cases.rules import record

Row = dict[str, Any]

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
SINCE = INTERVAL.end - timedelta(minutes=30)  # the look-back window

_CASES = Path(__file__).parents[3] / "unit" / "facts"
_LOCK_KINDS = {
    "refused": "lock_refused",
    "expired": "lock_expired",
    "taken": "lock_taken",
    "failed": "client_lock_result",
    "ok": "client_lock_renewal",
}


def cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of `lock_waits`, `subscriptions` or `log_lines`."""
    found: list[dict[str, Any]] = yaml.safe_load((_CASES / f"{name}.yml").read_text(encoding="utf-8"))
    return found


def before_the_end(seconds: float) -> datetime:
    return INTERVAL.end - timedelta(seconds=seconds)


def event_row(kind: str, seconds: float, fields: dict[str, Any], **columns: Any) -> Row:
    """Return a row of `log_events`, from broker-a's log unless said otherwise."""
    names = {name: fields.get(name) for name in ("consumer_group", "topic", "queue_id", "client_id")}
    given = {
        "cluster": "demo",
        "interval_start": INTERVAL.start,
        "source": "broker-a-0",
        "file": "broker.log",
        "position": 1,
        "kind": kind,
        "at": before_the_end(seconds),
        "broker_name": "broker-a",
        "broker_id": 0,
        "fields_json": json.dumps(fields),
        **names,
    }
    return _row(LOG_EVENTS, given | columns)


def read_again(rows: list[Row]) -> list[Row]:
    """Return rows, and those that reading them once more gives: in an earlier round, and from a file renamed meanwhile.

    The same position: what moves with a file stays at its place in it.
    """
    earlier = {"interval_start": INTERVAL.start - timedelta(minutes=1)}
    return [*rows, *(row | earlier for row in rows), *(row | {"file": "broker.1.log"} for row in rows)]


def lock_line(number: int, line: list[Any], consumer_group: str = "billing") -> Row:
    """Return the row of `[seconds before the end, what, client, holder, columns]`."""
    seconds, what, client, holder, *more = line
    fields: dict[str, Any] = {"consumer_group": consumer_group, "topic": "orders", "broker_name": "broker-a"}
    fields["queue_id"] = 0
    of_client = what in {"failed", "ok"}
    if of_client:
        fields["outcome"] = {"failed": "Failed", "ok": "OK"}[what]
        columns: Row = {"source": "app", "broker_name": None, "broker_id": None}
    else:
        fields |= {"client_id": client} | ({} if holder is None else {"holder_client_id": holder})
        columns = {}
    given = {"position": number} | columns | (more[0] if more else {})
    return event_row(_LOCK_KINDS[what], seconds, fields, **given)


def lock_wait(given: dict[str, Any]) -> LockWaitFacts:
    """Return the fact of one entry under `waits`."""
    count, first, last = given["refused"]
    ended, how, who = given.get("ended", (None, None, None))
    entry = {
        "consumer_group": "billing",
        "holder_client_id": given.get("holder"),
        "waiter_client_id": given.get("waiter"),
        "told_by": given.get("told_by", "broker"),
        "refusal_count": count,
        "first_refused_s_ago": first,
        "last_refused_s_ago": last,
        "ended_by": how,
        "next_holder_client_id": who,
        "waited_ms": given["waited_s"] * 1000,
    }
    moments = {"ended_s_ago": ended, "holder_asked_s_ago": given.get("asked")}
    found: LockWaitFacts = record(LockWaitFacts, entry | {name: at for name, at in moments.items() if at is not None})
    return found


HOLDERS = {
    ("billing", "alive"): (True, INTERVAL.start),
    ("billing", "silent"): (True, None),
    ("billing", "dead"): (False, None),
    ("billing", None): (None, None),
    ("offline", "dead"): (False, None),
    ("unseen", "dead"): (None, None),
    ("unlisted", "dead"): (None, None),
}
"""(group, holder) of the waits of `holder_rows` -> whether it is online, and since when."""


def holder_rows() -> tuple[list[Row], list[Row], list[Row]]:
    """Return rows of `log_events`, `client_snapshots` and `group_snapshots`."""
    lines = [lock_line(at, [60, "refused", "w", holder], group) for at, (group, holder) in enumerate(HOLDERS)]
    clients = [
        client_row("alive", None, None, consumer_start_at=SINCE),
        client_row("alive", None, None, broker_id=1, consumer_start_at=INTERVAL.start),
        client_row("alive", None, None, broker_id=2),
        client_row("silent", None, None),
        client_row("dead", None, None, "another"),
    ]
    online = {"billing": 2, "offline": 0, "unseen": None}
    groups = [
        _row(GROUP_SNAPSHOTS, {"cluster": "demo", "consumer_group": group, "online_client_count": count})
        for group, count in online.items()
    ]
    return lines, clients, groups


def group_line(number: int, line: list[Any]) -> Row:
    """Return the row of `[seconds before the end, kind, group, fields, columns]`."""
    seconds, kind, group, fields, *more = line
    return event_row(
        kind, seconds, fields, **{"position": number, "consumer_group": group, **(more[0] if more else {})}
    )


def subscription_line(number: int, line: list[Any], topic: str = "orders") -> Row:
    """Return the row of `[seconds before the end, what, from, to, columns]`."""
    seconds, what, before, after, *more = line
    columns: Row = {"position": number} | (more[0] if more else {})
    fields: dict[str, Any] = {"consumer_group": "billing", "topic": topic}
    new_type = columns.pop("new_type", "TAG")
    if what == "changed":
        fields |= {"old_sub_string": before, "new_sub_string": after}
        fields |= {"old_expression_type": "TAG", "new_expression_type": new_type}
    else:
        fields |= {"sub_string": before or after, "expression_type": "TAG"}
    return event_row(f"subscription_{what}", seconds, fields, **columns)


def client_row(
    client_id: str, own: list[str] | None, held: list[str] | None, group: str = "billing", **more: Any
) -> Row:
    """Return a row of `client_snapshots`; `own` None: the client was not asked."""
    given = {
        "cluster": "demo",
        "interval_start": INTERVAL.start,
        "consumer_group": group,
        "client_id": client_id,
        "broker_name": "broker-a",
        "broker_id": 0,
        "subscriptions": held,
        "own_subscriptions": own,
        "running_info_read_at": None if own is None else INTERVAL.start,
    }
    return _row(CLIENT_SNAPSHOTS, given | more)


def subscription_rows(case: dict[str, Any]) -> tuple[list[Row], list[Row]]:
    """Return the rows of `log_events` and `client_snapshots` of a case."""
    events = [subscription_line(at, line) for at, line in enumerate(case.get("lines", ()))]
    members = case.get("members", {}).items()
    return events, [client_row(name, own, case.get("held")) for name, own in members]


def subscription_fact(given: dict[str, Any] | None) -> SubscriptionFacts | None:
    """Return the fact of an entry `fact`."""
    if given is None:
        return None
    said = {name: value for name, value in given.items() if value is not None}
    found: SubscriptionFacts = record(SubscriptionFacts, {"consumer_group": "billing", **said})
    return found


def _row(table: Table, given: Row) -> Row:
    return {column.name: given.get(column.name) for column in table.columns}
