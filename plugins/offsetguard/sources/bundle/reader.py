"""A bundle read back: its exchanges by what was asked, who the addresses are, and the moments that can be replayed."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle import layout
from offsetguard.sources.rocketmq.brokers import broker_config
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.routes import cluster_info

READ_TOGETHER_MS = 20_000  # between committed and max offsets
Key = tuple[str, int, frozenset[tuple[str, str]]]  # label of the peer, request code, fields that matter

CONSUMER_OFFSET_CODES = frozenset({RequestCode.GET_ALL_CONSUMER_OFFSET})
PULL_OFFSET_CODES = frozenset({RequestCode.GET_CONSUME_STATS})
MAX_OFFSET_CODES = frozenset({RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET})

_PULL_FIELDS = frozenset({"topic", "queueId", "queueOffset"})  # messages do not change: the rest only limits how many
_WITHOUT_EFFECT = frozenset({"acceptStandardJsonOnly", "bname", "ns", "nsd", "oway", "lo"})


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a replayed collection round begins: every answer of the round lies at or behind this line."""

    line: int
    t_ms: int
    next_line: int  # first line of the next moment

    @property
    def at(self) -> datetime:
        """When it began, UTC."""
        return datetime.fromtimestamp(self.t_ms / 1000, UTC)


@dataclass(slots=True)
class Bundle:
    """Everything of the index in memory; bodies stay on disk until they are asked for."""

    folder: Path
    meta: layout.Meta
    exchanges: list[layout.Exchange] = field(default_factory=list)
    by_key: dict[Key, list[layout.Exchange]] = field(default_factory=lambda: defaultdict(list))
    labels: dict[str, str] = field(default_factory=dict)  # "ip:port" as the name server lists it -> label
    other_peers: set[str] = field(default_factory=set)  # labels that no name server lists: proxies
    notes: list[str] = field(default_factory=list)  # what is wrong with the bundle, and what was done about it


def open_bundle(folder: Path) -> Bundle:
    """Read meta and index; raises BundleError naming file and line.

    A last line without its end is what a kill leaves: it is left out, and noted.
    """
    bundle = Bundle(folder, layout.read_meta(folder))
    bundle.notes.extend(bundle.meta.notes)
    for exchange in _read_index(bundle):
        bundle.exchanges.append(exchange)
        bundle.by_key[key_of(exchange.broker, exchange.code, exchange.ext)].append(exchange)
    _read_labels(bundle)
    return bundle


def name_servers_of(bundle: Bundle) -> list[str]:
    """Return the name servers with which the first broker registers that told its settings; none: nobody did."""
    for one in bundle.exchanges:
        if one.code == RequestCode.GET_BROKER_CONFIG and one.file is not None:
            with suppress(MalformedBytes, BundleError):  # the replay tells
                return broker_config(layout.read_body(bundle.folder, one)).get("namesrvAddr", "").split(";")
    return []


def key_of(label: str, code: int, ext: Mapping[str, str]) -> Key:
    """Return what makes two requests the same; fields that only say "no" (false, empty) count as left out."""
    if code == RequestCode.PULL_MESSAGE:
        fields = frozenset((name, value) for name, value in ext.items() if name in _PULL_FIELDS)
    else:
        fields = frozenset(
            (name, value) for name, value in ext.items() if value not in ("", "false") and name not in _WITHOUT_EFFECT
        )
    return label, int(code), fields


def moments(bundle: Bundle) -> list[Moment]:
    """Return the rounds that can be replayed, oldest first.

    Ours are noted in meta.json; one that a kill cut off is left out, unless it is the only one. In a bundle of another
    collector a round begins with the committed offsets of all brokers (43), and needs max offsets (202) that were read
    behind them: often the last one has none. Where these came much later, what was written in between would look like
    lag: such rounds are left out, unless there are no others.
    """
    if bundle.meta.rounds_ms:
        starts = _noted_starts(bundle)
        if len(bundle.meta.rounds_ms) > bundle.meta.rounds_ended:
            starts = starts[:-1] or starts
    else:
        starts = _starts_by_committed_offsets(bundle.exchanges)
        starts = _followed_by_max_offsets(bundle, starts) or starts
        starts = _read_together(bundle, starts) or starts
    if not starts:
        return []
    ends = [*(one.line for one in starts[1:]), bundle.exchanges[-1].line + 1]
    return [Moment(one.line, one.t_ms, end) for one, end in zip(starts, ends, strict=True)]


def _noted_starts(bundle: Bundle) -> list[layout.Exchange]:
    """Return the first exchange of every noted round; rounds without any (killed at once) are none."""
    starts: list[layout.Exchange] = []
    exchanges = iter(bundle.exchanges)
    current = next(exchanges, None)
    for round_ms in sorted(bundle.meta.rounds_ms):
        while current is not None and current.t_ms < round_ms:
            current = next(exchanges, None)
        if current is None:
            break
        if not starts or starts[-1].line != current.line:
            starts.append(current)
    return starts


def _starts_by_committed_offsets(exchanges: Sequence[layout.Exchange]) -> list[layout.Exchange]:
    starts: list[layout.Exchange] = []
    seen: set[str] = set()
    for one in exchanges:
        if one.code == RequestCode.GET_ALL_CONSUMER_OFFSET:
            if not starts or one.broker in seen:
                starts.append(one)
                seen.clear()
            seen.add(one.broker)
    return starts


def _followed_by_max_offsets(bundle: Bundle, starts: Sequence[layout.Exchange]) -> list[layout.Exchange]:
    """Return the rounds behind which the broker was asked for all of its topics, else for any of them."""
    last_lines: dict[str, dict[Key, int]] = defaultdict(dict)
    for one in bundle.exchanges:
        if one.code == RequestCode.GET_TOPIC_STATS_INFO:
            last_lines[one.broker][key_of(one.broker, one.code, one.ext)] = one.line
    for complete in (min, max):
        chosen = [one for one in starts if one.line < complete(last_lines[one.broker].values(), default=0)]
        if chosen:
            return chosen
    return []


def _read_together(bundle: Bundle, starts: Sequence[layout.Exchange]) -> list[layout.Exchange]:
    """Return the rounds in which the same broker's max offsets came soon behind the committed ones."""
    max_offsets: dict[str, list[layout.Exchange]] = defaultdict(list)
    for one in bundle.exchanges:
        if one.code == RequestCode.GET_TOPIC_STATS_INFO:
            max_offsets[one.broker].append(one)
    found = []
    for start in starts:
        of_broker = max_offsets[start.broker]
        behind = first_from(of_broker, start.line)
        if behind < len(of_broker) and of_broker[behind].t_ms - start.t_ms <= READ_TOGETHER_MS:
            found.append(start)
    return found


def first_from(recorded: Sequence[layout.Exchange], line: int) -> int:
    """Return the position of the first exchange at a line or behind it."""
    return bisect_left(recorded, line, key=lambda one: one.line)


def _read_index(bundle: Bundle) -> Iterator[layout.Exchange]:
    file = bundle.folder / layout.INDEX
    with layout.opened_file(bundle.folder, layout.INDEX) as opened:
        line = 0
        while text := opened.readline(layout.MAX_LINE_BYTES + 1):
            line += 1
            if len(text) > layout.MAX_LINE_BYTES:
                raise BundleError(f"{file}:{line}: longer than {layout.MAX_LINE_BYTES} bytes")
            if not text.endswith(b"\n"):
                bundle.notes.append(f"{file}:{line}: the last line was cut off and is left out")
            elif text.strip():
                yield layout.read_index_line(text, line, str(file))


def _read_labels(bundle: Bundle) -> None:
    """Learn who the addresses are from what the name server listed; the newest list wins."""
    read: set[str] = set()
    for one in bundle.exchanges:
        is_answer = one.header is not None and one.header.get("code") == ResponseCode.SUCCESS
        if one.code != RequestCode.GET_BROKER_CLUSTER_INFO or one.broker != layout.NAME_SERVER or not is_answer:
            continue
        if one.file is None or one.file in read:
            continue
        read.add(one.file)
        try:
            bundle.labels |= cluster_info(layout.read_body(bundle.folder, one)).labels()
        except (MalformedBytes, BundleError) as error:
            bundle.notes.append(
                f"{bundle.folder / layout.INDEX}:{one.line}: the list of brokers cannot be read: {error}"
            )
    bundle.other_peers = {one.broker for one in bundle.exchanges} - {layout.NAME_SERVER, *bundle.labels.values()}
