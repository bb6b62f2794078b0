"""What logs said about a group, counted: rebalances, resets, refused pulls, full caches. The pure side.

`offsetguard_spark.log_lines` makes the same of the Iceberg table; cases in tests/unit/log_facts/log_lines.yml and a
property test hold the two equal. What both do, in this order:

1. Lines of KINDS within the look-back window, each once however often it was read.
2. Code 25 has one kind, whether 4.x prints it as an exception or 5.x as a sentence. Other refusals are left out.
3. A line that names no group (a client's log) belongs to the group that its path names, else to the one group that the
   other lines of that log name; where there is none, or more than one, it is left out: we do not guess.
4. Lines become one fact per (group, topic, kind, log source, broker, queue). `broker_name` is whom the line is about.
5. A *spell* is a run of lines without a silence longer than SILENCE, which is two rebalance rounds and a late one. What
   comes up at every rebalance (20 s) is one spell as long as it lasts; noise after a restart is a short one.

Source of the lines: `logs.broker`, `logs.members`, `logs.client`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from offsetguard.facts import LogLineFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Row = dict[str, Any]

SILENCE = timedelta(seconds=45)
MOST_CLIENTS = 20
NOT_LATEST_CODE = 25

NOT_IN_MEMBERS = "client_not_in_members"
CLIENT_NOT_LATEST = "client_subscription_not_latest"
PULL_REFUSED = "pull_refused"  # becomes CLIENT_NOT_LATEST, or is left out
FILE_NOT_WRITTEN = "offset_file_not_written"

REBALANCE_NOISE = (NOT_IN_MEMBERS, CLIENT_NOT_LATEST, "subscription_not_latest", "member_list_failed")
MEMBERSHIP = (
    "members_changed",
    "consumer_started",
    "consumer_stopped",
    "consumer_connected",
    "consumer_unregistered",
    "channel_removed",
    "channel_expired",
    "group_offline",
)
RESETS = (
    "offset_reset_started",
    "offset_reset_sent",
    "offset_reset_stored",
    "client_offset_reset",
    "offsets_removed",
)
FLOW_CONTROL = ("flow_control_count", "flow_control_size", "flow_control_span")
KINDS = (*REBALANCE_NOISE, PULL_REFUSED, *MEMBERSHIP, *RESETS, *FLOW_CONTROL, "client_offset_illegal", FILE_NOT_WRITTEN)

# LocalFileOffsetStore: <localOffsetStoreDir>/<client id>/<group>/offsets.json
OFFSET_FILE = r"/([^/]+)/([^/]+)/offsets\.json"


class _Key(NamedTuple):
    consumer_group: str
    topic: str | None
    kind: str
    source: str
    broker_name: str | None
    queue_id: int | None


class _Line(NamedTuple):
    """One line; lines are ordered by their fields, and lines that are equal in all are one."""

    at: datetime
    position: int
    client: str  # "" = not named
    fields_json: str


def log_line_facts(events: Iterable[Row], since: datetime) -> list[LogLineFacts]:
    """Return the facts of `log_events` rows of one cluster, of lines from `since` on, in no order."""
    chosen = [row for row in events if row["kind"] in KINDS and row["at"] is not None and row["at"] >= since]
    groups = _groups_of_sources(chosen)
    lines: dict[_Key, set[_Line]] = defaultdict(set)
    for event in chosen:
        fields = json.loads(event["fields_json"])
        kind = _kind(event["kind"], fields)
        group, client = _whose(event, fields, groups)
        if kind is not None and group is not None:
            broker_name = event["broker_name"] or fields.get("broker_name")
            key = _Key(group, event["topic"], kind, event["source"], broker_name, event["queue_id"])
            lines[key].add(_Line(event["at"], event["position"], client or "", event["fields_json"]))
    return [_fact(key, sorted(some)) for key, some in lines.items()]


def _groups_of_sources(events: Iterable[Row]) -> dict[str, str]:
    """Return the group of each client's log that names exactly one."""
    named: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event["broker_name"] is None and event["consumer_group"] is not None:
            named[event["source"]].add(event["consumer_group"])
    return {source: next(iter(groups)) for source, groups in named.items() if len(groups) == 1}


def _kind(kind: str, fields: Mapping[str, Any]) -> str | None:
    if kind != PULL_REFUSED:
        return kind
    return CLIENT_NOT_LATEST if fields.get("response_code") == NOT_LATEST_CODE else None


def _whose(
    event: Mapping[str, Any], fields: Mapping[str, Any], groups: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """Return group and client of a line."""
    group, client = event["consumer_group"], event["client_id"]
    if group is not None or event["broker_name"] is not None:
        return group, client
    path = re.search(OFFSET_FILE, fields.get("path") or "") if event["kind"] == FILE_NOT_WRITTEN else None
    return (path[2], client or path[1]) if path else (groups.get(event["source"]), client)


def _fact(key: _Key, lines: Sequence[_Line]) -> LogLineFacts:
    *_, spell = _spells(lines)
    clients = sorted({line.client for line in lines} - {""})
    return LogLineFacts(
        **key._asdict(),
        line_count=len(lines),
        first_at=lines[0].at,
        last_at=lines[-1].at,
        spell_line_count=len(spell),
        spell_first_at=spell[0].at,
        client_ids=tuple(clients[:MOST_CLIENTS]),
        newest_fields_json=lines[-1].fields_json,
    )


def _spells(lines: Sequence[_Line]) -> Iterator[Sequence[_Line]]:
    begins = 0
    for number in range(1, len(lines) + 1):
        if number == len(lines) or lines[number].at - lines[number - 1].at > SILENCE:
            yield lines[begins:number]
            begins = number
