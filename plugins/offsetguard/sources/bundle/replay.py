"""The rounds of a bundle, one per interval, each with its moment, the logs up to it, and a transport that answers.

Goal: the normal collection round runs on a bundle, and its invariants hold as they do live.
Plan: offsets that are compared must have been read in the order consumer <= pull <= max, whatever order another
collector recorded them in. So each kind is answered with the first exchange *behind* what was served of the kinds
before it, and consumer offsets that are read again with one behind everything. Members, rates and figures come from
the round itself, else from the minute before; settings hold for the whole bundle.
Not here: making anything up. What is not in the bundle, or not in a comparable order, is NotRecorded.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offsetguard.config import LogSource
from offsetguard.model import errors
from offsetguard.model.errors import BundleError, ConnectionLost, NotRecorded, UndecodableResponse
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle import reader
from offsetguard.sources.bundle.layout import NAME_SERVER, Exchange, other_peer, read_body
from offsetguard.sources.bundle.log_replay import LogReplay
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RESPONSE_FLAG, RemotingCommand
from offsetguard.sources.rocketmq.requests import AnswerT, Request
from offsetguard.sources.rocketmq.transport import ExchangeTransport, Transport

PERIOD_MS = 60_000  # a snapshot stands for a minute: nothing older or newer belongs to it
SETTING_CODES = frozenset(
    {
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.PULL_MESSAGE,  # messages never change
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,  # nor where those of a moment begin
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    }
)
_ORDERED = (reader.CONSUMER_OFFSET_CODES, reader.PULL_OFFSET_CODES, reader.MAX_OFFSET_CODES)
_OLDER = ((1, 2), (0,), (0, 1))  # by position in _ORDERED: which kinds must have been read before
_FAILURES = {
    kind.__name__: kind
    for kind in (errors.PeerUnreachable, errors.RequestTimedOut, errors.ConnectionLost, errors.UndecodableResponse)
}


def last_max_lines(bundle: reader.Bundle) -> dict[str, int]:
    """Return by label the last line with the max offsets of a topic."""
    return {one.broker: one.line for one in bundle.exchanges if one.code == RequestCode.GET_TOPIC_STATS_INFO}


class BundleTransport(ExchangeTransport):
    """One moment of a bundle; make a new one for each round."""

    def __init__(self, bundle: reader.Bundle, moment: reader.Moment, last_max: Mapping[str, int] | None = None) -> None:
        """`last_max`: what `last_max_lines` says of the bundle, for whoever replays many moments."""
        self._bundle = bundle
        self._moment = moment
        self._served: dict[tuple[str, int], int] = defaultdict(int)  # (label, kind of offset) -> last line served
        self._now: dict[str, int] = {}  # label -> unix ms of the answer that it gave last
        self._newest_ms = moment.t_ms  # of all answers
        self._last_max = last_max or last_max_lines(bundle)

    def now(self, address: str | None = None) -> datetime:
        """When the answer that an address gave last was recorded; without one, the newest answer of all."""
        t_ms = self._now.get(self.label(address), self._moment.t_ms) if address else self._newest_ms
        return datetime.fromtimestamp(t_ms / 1000, UTC)

    def label(self, address: str) -> str:
        """Return who answers at an address: brokers as the name server listed them; everybody else is a name server."""
        if address in self._bundle.labels:
            return self._bundle.labels[address]
        other = other_peer(address)
        return other if other in self._bundle.other_peers else NAME_SERVER

    async def call_many(
        self, address: str, requests: Sequence[Request[AnswerT]]
    ) -> list[AnswerT | errors.RocketMQError]:
        """As `Transport.call_many`; afterwards `now` is the time of the newest of these answers."""
        label = self.label(address)
        answered_ms: list[int] = []
        outcomes: list[AnswerT | errors.RocketMQError] = []
        for request in requests:
            outcome: AnswerT | errors.RocketMQError = await self.outcome(address, request)
            outcomes.append(outcome)
            if not isinstance(outcome, NotRecorded):
                answered_ms.append(self._now[label])
        if answered_ms:
            self._now[label] = max(answered_ms)
        return outcomes

    async def exchange(self, address: str, request: Request[AnswerT]) -> RemotingCommand:
        """Return the recorded response, or raise the recorded failure; NotRecorded when there is none."""
        label = self.label(address)
        recorded = self._bundle.by_key.get(reader.key_of(label, request.code, request.ext_fields()), [])
        kind = next((number for number, codes in enumerate(_ORDERED) if request.code in codes), None)
        if kind is not None:
            chosen = self._in_order(label, kind, recorded)
        elif label == NAME_SERVER or request.code in SETTING_CODES:
            chosen = _setting(recorded, self._moment)
        else:
            chosen = _figure(recorded, self._moment)
        if chosen is None:
            raise NotRecorded(address, f"{request} of {label} is not in the bundle {self._why(recorded)}")
        self._now[label] = chosen.t_ms
        self._newest_ms = max(self._newest_ms, chosen.t_ms)
        if kind is not None:
            self._served[label, kind] = max(self._served[label, kind], chosen.line)
        return self._response(address, chosen)

    def _in_order(self, label: str, kind: int, recorded: Sequence[Exchange]) -> Exchange | None:
        """Return the first exchange behind what was served of the kinds that must be older, within the period."""
        floor = max(self._moment.line, *(self._served[label, other] for other in _OLDER[kind]))
        position = reader.first_from(recorded, floor)
        chosen = recorded[position] if position < len(recorded) else None
        if chosen is None or chosen.t_ms > self._moment.t_ms + PERIOD_MS:
            return None
        if _ORDERED[kind] is reader.PULL_OFFSET_CODES and self._last_max.get(label, 0) < chosen.line:
            return None  # no max offset was read behind it: a pull offset that nothing bounds proves nothing
        return chosen

    def _why(self, recorded: Sequence[Exchange]) -> str:
        if not recorded:
            return "at all"
        moment = f"{self._moment.at:%H:%M:%S}"
        return f"for the moment {moment} UTC (it is at others, or not in an order in which offsets can be compared)"

    def _response(self, address: str, one: Exchange) -> RemotingCommand:
        if one.header is None:
            kind, message = one.error or ("", "no response")
            raise _FAILURES.get(kind, ConnectionLost)(address, message)
        try:
            body = read_body(self._bundle.folder, one)
        except BundleError as error:
            raise UndecodableResponse(address, str(error)) from error
        header = one.header
        code, remark, ext = header.get("code"), header.get("remark"), header.get("extFields")
        if isinstance(code, bool) or not isinstance(code, int):
            raise UndecodableResponse(address, f"line {one.line} of the index: the header's code is no number")
        return RemotingCommand(
            code=code,
            opaque=0,
            flag=RESPONSE_FLAG,
            remark=remark if isinstance(remark, str) else None,
            ext_fields={str(name): str(value) for name, value in ext.items()} if isinstance(ext, dict) else {},
            body=body,
        )


def _setting(recorded: Sequence[Exchange], moment: reader.Moment) -> Exchange | None:
    """Return the newest exchange of the round, else the newest before it, else the first after it."""
    behind = reader.first_from(recorded, moment.next_line)
    return recorded[max(0, behind - 1)] if recorded else None


def _figure(recorded: Sequence[Exchange], moment: reader.Moment) -> Exchange | None:
    """Return the first exchange of the round, else the one before it, where that is of the minute before."""
    first = reader.first_from(recorded, moment.line)
    if first < len(recorded) and recorded[first].line < moment.next_line:
        return recorded[first]
    return recorded[first - 1] if first and recorded[first - 1].t_ms >= moment.t_ms - PERIOD_MS else None


MAX_ROUNDS = 5_000  # a day of one each 20 s
AT_TOLERANCE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Damage:
    """Something recorded that cannot be read, or was read from elsewhere: a gap of the round, and the bytes, if any."""

    source: str  # file, and line
    reason: str
    broker_name: str | None = None
    broker_id: int | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """One round to run through the normal collector; `transport` answers for this round only."""

    cluster: str  # as the bundle names it; its folder's name where it does not
    interval: Interval
    started_at: datetime
    transport: Transport
    log_sources: tuple[LogSource, ...]  # with the lines up to this round
    details: str = "all"  # whose pull offsets, rates and running info can be there: of all groups, or of suspects
    damages: tuple[Damage, ...] = ()
    origin: str = "broker"  # of the offsets, see `queue_snapshots.origin`


def rounds_of_bundle(folder: Path, at: datetime | None = None) -> Iterator[RecordedRound]:
    """Yield the rounds of a bundle, oldest first: the last one of each interval, or the one nearest to `at`.

    Raises BundleError when the folder is no bundle, holds no round, or none near `at`.
    """
    bundle = reader.open_bundle(folder)
    chosen = chosen_moments(bundle, at)
    ends: list[datetime | None] = [Interval.containing(one.at).end for one in chosen]
    if at is None:
        ends[-1] = None
    yield from _rounds(bundle, chosen, ends)


def all_rounds_of_bundle(bundle: reader.Bundle) -> Iterator[RecordedRound]:
    """Yield every round of an opened bundle, oldest first, each with the log lines up to its start; the last has all.

    So it is with live rounds, which read the logs first: what is written later, the next one finds. Of more than
    MAX_ROUNDS the last ones: all of them are held in memory. Raises BundleError when the bundle holds no round.
    """
    found = _all_moments(bundle)
    chosen = found[-MAX_ROUNDS:]
    if len(chosen) < len(found):
        bundle.notes.append(f"{bundle.folder}: holds {len(found):,} rounds; the last {MAX_ROUNDS:,} of them are judged")
    yield from _rounds(bundle, chosen, [*(one.at for one in chosen[:-1]), None])


def _rounds(
    bundle: reader.Bundle, chosen: Sequence[reader.Moment], ends: Sequence[datetime | None]
) -> Iterator[RecordedRound]:
    """Yield rounds; `ends`: up to when each of them knows the logs, None = to their end."""
    logs, last_max = LogReplay(bundle), last_max_lines(bundle)
    for moment, end in zip(chosen, ends, strict=True):
        yield RecordedRound(
            cluster=bundle.meta.cluster or bundle.folder.resolve().name,
            interval=Interval.containing(moment.at),
            started_at=moment.at,
            transport=BundleTransport(bundle, moment, last_max),
            log_sources=logs.until(end),
            details=bundle.meta.details,
            damages=tuple(Damage(str(bundle.folder), note) for note in bundle.notes),
        )


def chosen_moments(bundle: reader.Bundle, at: datetime | None) -> Sequence[reader.Moment]:
    """Return the moments that stand for their intervals; a snapshot is one per interval."""
    all_moments = _all_moments(bundle)
    if at is None:
        return list({Interval.containing(one.at): one for one in all_moments}.values())
    nearest = min(all_moments, key=lambda one: abs(one.at - at))
    if abs(nearest.at - at) > AT_TOLERANCE:
        first, last = all_moments[0].at, all_moments[-1].at
        raise BundleError(f"{bundle.folder}: no round near {at:%F %T}; it holds {first:%F %T} to {last:%F %T} UTC")
    return [nearest]


def _all_moments(bundle: reader.Bundle) -> Sequence[reader.Moment]:
    if found := reader.moments(bundle):
        return found
    raise BundleError(f"{bundle.folder}: holds no round: no broker was asked for its consumer offsets")
