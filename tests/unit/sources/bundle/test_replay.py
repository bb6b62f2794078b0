"""A bundle answers as the cluster did at a moment: in an order in which offsets can be compared, and never more."""

import asyncio
import gzip
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.errors import (
    BundleError,
    NotRecorded,
    RequestTimedOut,
    RocketMQError,
    UndecodableBody,
    UndecodableResponse,
)
from offsetguard.sources.bundle.layout import Exchange, Meta, index_line
from offsetguard.sources.bundle.log_replay import MAX_LOG_BYTES, LogReplay, log_sources
from offsetguard.sources.bundle.reader import Bundle, key_of, moments, open_bundle
from offsetguard.sources.bundle.replay import (
    MAX_ROUNDS,
    PERIOD_MS,
    BundleTransport,
    all_rounds_of_bundle,
    rounds_of_bundle,
)
from offsetguard.sources.logs.log_files import LogCursor
from offsetguard.sources.logs.tailing import read_logs
from offsetguard.sources.rocketmq.codes import ConsumerNotOnline
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllTopicConfig,
    GetBrokerConfig,
    GetConsumerConnectionList,
    GetConsumeStats,
    GetTopicStatsInfo,
    Request,
)
from offsetguard_peers.cases.running import for_each

BUNDLES = Path(__file__).parents[3] / "data" / "bundles"
NAME_SERVER, BROKER = "10.0.0.9:9876", "10.0.0.1:10911"
START_MS = 1_795_247_480_000


def bundle_of(
    *asked: tuple[str, int, Mapping[str, str], int], rounds_ms: tuple[int, ...] = (), ended: int = 0
) -> Bundle:
    """Return a bundle of answered exchanges: (label, code, ext fields, ms after the start)."""
    bundle = Bundle(Path("nowhere"), Meta(rounds_ms=rounds_ms, rounds_ended=ended), labels={BROKER: "broker-a-0"})
    for line, (label, code, ext, ms) in enumerate(asked, start=1):
        exchange = Exchange(line, START_MS + ms, label, code, ext, None, {"code": 0})
        bundle.exchanges.append(exchange)
        bundle.by_key[key_of(label, code, ext)].append(exchange)
    return bundle


def served_ms(bundle: Bundle, *requests: Request, moment: int = 0) -> list[int | None]:  # type: ignore[type-arg]
    """Ask a broker one after the other; returns when each answer was recorded, None = not in the bundle."""
    transport = BundleTransport(bundle, moments(bundle)[moment])

    async def ask() -> list[int | None]:
        times: list[int | None] = []
        for request in requests:
            try:
                await transport.exchange(BROKER, request)
            except NotRecorded:
                times.append(None)
            else:
                times.append(round(transport.now(BROKER).timestamp() * 1000) - START_MS)
        return times

    return asyncio.run(ask())


COMMITTED, STATS, ENDS = GetAllConsumerOffset(), GetConsumeStats("g"), GetTopicStatsInfo("t")
A_43 = ("broker-a-0", 43, {})
A_208 = ("broker-a-0", 208, {"consumerGroup": "g"})
A_202 = ("broker-a-0", 202, {"topic": "t"})


@for_each(
    "recorded, asked, served",
    [
        pytest.param(
            [(*A_202, 0), (*A_43, 10), (*A_208, 20), (*A_202, 5_000), (*A_43, 5_010)],
            [COMMITTED, STATS, ENDS],
            [10, 20, 5_000],
            id="max offsets come from behind the consumer offsets, whatever the order of recording",
        ),
        pytest.param(
            [(*A_43, 0), (*A_208, 1), (*A_202, 2), (*A_43, 5), (*A_208, 6), (*A_202, 7)],
            [COMMITTED, STATS, ENDS, ENDS, COMMITTED, STATS, ENDS],
            [0, 1, 2, 2, 5, 6, 7],
            id="a second reading (min, consumer, pull, max) goes on behind the first one",
        ),
        pytest.param(
            [(*A_43, 0), (*A_208, 1), (*A_202, 2)],
            [COMMITTED, ENDS, STATS, ENDS],
            [0, 2, 1, 2],
            id="details that a recording asked for in its base are found by a replay that asks for them late",
        ),
        pytest.param(
            [(*A_43, 0), (*A_202, 10), (*A_208, 20)],
            [COMMITTED, STATS, ENDS],
            [0, None, 10],
            id="a pull offset that no max offset bounds is not served",
        ),
        pytest.param(
            [(*A_43, 0), (*A_202, PERIOD_MS + 1)],
            [COMMITTED, ENDS],
            [0, None],
            id="an exchange of another minute does not belong to the moment",
        ),
    ],
)
def test_offsets_are_served_in_an_order_in_which_they_can_be_compared(recorded, asked, served):
    assert served_ms(bundle_of(*recorded), *asked) == served


def test_members_come_from_the_round_or_the_minute_before_it() -> None:
    members = ("broker-a-0", 203, {"consumerGroup": "g"})
    asked = GetConsumerConnectionList("g")
    old = bundle_of((*members, 0), (*A_43, 50_000), (*A_202, 50_001), (*A_43, 61_000), (*A_202, 61_001))
    assert served_ms(old, asked, moment=0) == [0]
    assert served_ms(old, asked, moment=1) == [None]
    newer = bundle_of((*A_43, 0), (*A_202, 1), (*A_43, 100), (*members, 150), (*A_202, 200))
    assert served_ms(newer, asked, moment=1) == [150]


def test_settings_hold_for_the_whole_bundle() -> None:
    topics = ("broker-a-0", 21, {})
    bundle = bundle_of((*A_43, 0), (*A_202, 1), (*topics, 90_000), (*A_43, 99_000), (*A_202, 99_001))
    assert served_ms(bundle, GetAllTopicConfig(), moment=0) == [90_000]
    assert served_ms(bundle, GetAllTopicConfig(), GetBrokerConfig(), moment=1) == [90_000, None]


def test_fields_that_say_no_are_the_same_as_fields_left_out() -> None:
    assert key_of("b-0", 307, {"clientId": "c", "jstackEnable": "false"}) == key_of("b-0", 307, {"clientId": "c"})
    assert key_of("b-0", 307, {"clientId": "c"}) != key_of("b-0", 307, {"clientId": "d"})


EXCHANGES = st.lists(
    st.tuples(st.sampled_from([A_43, A_208, A_202]), st.integers(0, 3_000)).map(lambda pair: (*pair[0], pair[1])),
    min_size=1,
    max_size=40,
)


@given(EXCHANGES, st.lists(st.sampled_from([COMMITTED, STATS, ENDS]), max_size=10))
def test_whatever_was_recorded_offsets_are_served_in_the_order_in_which_they_were_asked(
    asked: list[tuple[str, int, Mapping[str, str], int]],
    requests: list[Request],  # type: ignore[type-arg]
) -> None:
    """Reading order keeps consumer <= pull <= max true: no offset is older than one that must not be above it."""
    must_be_older = {
        GetAllConsumerOffset: (GetConsumeStats, GetTopicStatsInfo),  # a second reading is newer than all of the first
        GetConsumeStats: (GetAllConsumerOffset,),
        GetTopicStatsInfo: (GetAllConsumerOffset, GetConsumeStats),
    }
    gaps = sorted(one[3] for one in asked)
    in_order = [(*one[:3], ms) for one, ms in zip(asked, gaps, strict=True)]
    bundle = bundle_of(*in_order, (*A_43, 3_001), (*A_202, 3_002))
    for moment in range(len(moments(bundle))):
        times = served_ms(bundle, *requests, moment=moment)
        seen = [(type(request), ms) for request, ms in zip(requests, times, strict=True) if ms is not None]
        for position, (kind, ms) in enumerate(seen):
            older = [earlier for other, earlier in seen[:position] if other in must_be_older[kind]]
            assert ms >= max(older, default=0)


def test_a_round_of_ours_begins_where_meta_says_so() -> None:
    asked = [(*A_43, 10), (*A_202, 11), (*A_43, 12), (*A_202, 13), (*A_43, 10_010), (*A_202, 10_011)]
    bundle = bundle_of(*asked, rounds_ms=(START_MS, START_MS + 10_000), ended=2)
    assert [one.t_ms - START_MS for one in moments(bundle)] == [10, 10_010]


def test_a_round_that_was_cut_off_is_replayed_only_if_there_is_no_other() -> None:
    asked = [(*A_43, 10), (*A_202, 11), (*A_43, 10_010)]
    two = bundle_of(*asked, rounds_ms=(START_MS, START_MS + 10_000), ended=1)
    assert [one.t_ms - START_MS for one in moments(two)] == [10]
    one = bundle_of(*asked[:2], rounds_ms=(START_MS,), ended=0)
    assert [one.t_ms - START_MS for one in moments(one)] == [10]


def test_failures_come_back_as_they_were(tmp_path: Path) -> None:
    def answered(asked: int, ext: Mapping[str, str], file: str | None, code: int = 0) -> Exchange:
        return Exchange(1, START_MS, "broker-a-0", asked, ext, file, {"code": code, "remark": "not online"})

    exchanges = [
        Exchange(1, START_MS, "broker-a-0", 43, {}, None, None, ("RequestTimedOut", "")),
        answered(203, {"consumerGroup": "g"}, None, code=206),
        answered(202, {"topic": "t"}, "202.json"),
        answered(202, {"topic": "u"}, "gone.json"),
    ]
    (tmp_path / "bodies").mkdir()
    (tmp_path / "bodies" / "202.json").write_text("no body of a broker")
    (tmp_path / "index.jsonl").write_text("".join(index_line(one) + "\n" for one in exchanges))
    bundle = open_bundle(tmp_path)
    bundle.labels = {BROKER: "broker-a-0"}
    transport = BundleTransport(bundle, moments(bundle)[0])
    requests = [GetAllConsumerOffset(), GetConsumerConnectionList("g"), GetTopicStatsInfo("t"), GetTopicStatsInfo("u")]
    outcomes = [asyncio.run(transport.outcome(BROKER, request)) for request in requests]
    assert list(map(type, outcomes)) == [RequestTimedOut, ConsumerNotOnline, UndecodableBody, UndecodableResponse]


def test_the_round_that_is_asked_for_must_be_near() -> None:
    with pytest.raises(BundleError, match="no round near 2026-11-21 12:00:00; it holds 2026-11-21 07:53:59 to"):
        list(rounds_of_bundle(BUNDLES / "4.9.8-orderly-lock", datetime(2026, 11, 21, 12, tzinfo=UTC)))


def test_the_logs_of_a_bundle_know_their_writers_and_their_time_zones() -> None:
    found = log_sources(open_bundle(BUNDLES / "4.9.8-orderly-lock"))
    assert {source.name: (source.broker_name, source.broker_id, source.time_zone) for source in found} == {
        "broker-a-0": ("broker-a", 0, "+08:00"),
        "broker-a-1": ("broker-a", 1, "+08:00"),
        "broker-b-0": ("broker-b", 0, "+08:00"),
        "c1": (None, 0, "+00:00"),
        "c2": (None, 0, "+00:00"),
        "c3": (None, 0, "+00:00"),
    }


def test_whatever_is_not_in_a_bundle_is_a_typed_error_and_nothing_else() -> None:
    bundle = open_bundle(BUNDLES / "5.3.3-healthy")
    transport = BundleTransport(bundle, moments(bundle)[0])

    async def ask() -> list[object]:
        return [
            await transport.outcome(address, request)
            for address in (NAME_SERVER, "127.0.0.1:30110", "not an address")
            for request in (GetConsumeStats("nobody"), GetTopicStatsInfo("nothing"))
        ]

    outcomes = asyncio.run(ask())
    assert all(isinstance(one, NotRecorded) for one in outcomes)
    assert all("is not in the bundle at all" in str(one) for one in outcomes if isinstance(one, RocketMQError))


LOG = (
    b"a line of an older record\n"
    b"2026-11-21 15:53:59 INFO one\n"
    b"2026-11-21 15:54:00 WARN two\n"
    b"\tat some.java.Class\n"
    b"2026-11-21 15:54:59 INFO three\n"
    b"2026-11-21 15:55:00 INFO four"
)


def bundle_with_log(folder: Path, log: bytes) -> Bundle:
    (folder / "logs" / "broker-a-0").mkdir(parents=True)
    (folder / "logs" / "broker-a-0" / "broker [1].log").write_bytes(log)
    return Bundle(folder, Meta())


def test_each_round_finds_the_lines_up_to_its_minute(tmp_path: Path) -> None:
    replay, lines = LogReplay(bundle_with_log(tmp_path, LOG)), LOG.splitlines(keepends=True)
    for minute, count in ((53, 1), (54, 2), (55, 5)):
        (source,) = replay.until(datetime(2026, 11, 21, 7, minute, tzinfo=UTC))
        assert list(source.ends.values()) == [len(b"".join(lines[:count]))]
    (source,) = replay.until(None)
    assert list(source.ends.values()) == [len(LOG)]


@for_each("compressed", [False, True])
def test_a_round_reads_no_further_than_its_logs_had_grown(compressed, tmp_path):
    lines = [b"2026-11-21 15:5%d:00 INFO line %d\n" % (minute, minute) for minute in range(4)]
    log = gzip.compress(b"".join(lines)) if compressed else b"".join(lines)
    whole = LogReplay(bundle_with_log(tmp_path / str(compressed), log)).until(None)
    cursors: tuple[LogCursor, ...] = ()
    positions = []
    for end in (0, 1, len(log) - 1, len(log)):
        sources = [one.model_copy(update={"ends": dict.fromkeys(one.ends, end)}) for one in whole]
        cursors = read_logs(sources, cursors).cursors
        positions.append(max((one.seen_bytes for one in cursors), default=0))
    assert positions == sorted(positions)
    assert positions[:2] == [0, 0]
    assert positions[-1] == len(b"".join(lines))


@pytest.mark.slow
def test_logs_beyond_all_measure_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    bundle = bundle_with_log(tmp_path, LOG)
    with (tmp_path / "logs" / "broker-a-0" / "of zeros.log").open("wb") as file:
        file.truncate(4 * MAX_LOG_BYTES)  # takes no room on the disk
    (source,) = LogReplay(bundle).until(None)
    assert sum(source.ends.values()) == MAX_LOG_BYTES
    assert "cut the logs to the time of the recording" in bundle.notes[0]


def test_of_rounds_beyond_all_measure_the_last_are_judged_and_that_is_said() -> None:
    """Each of them would stay in memory, and look through all of the others."""
    asked = [exchange for round_ in range(2 * MAX_ROUNDS) for exchange in ((*A_43, round_), (*A_202, round_))]
    bundle = bundle_of(*asked)
    rounds = list(all_rounds_of_bundle(bundle))
    assert len(rounds) == MAX_ROUNDS
    assert rounds[-1].started_at == datetime.fromtimestamp((START_MS + 2 * MAX_ROUNDS - 1) / 1000, UTC)
    assert f"holds {2 * MAX_ROUNDS:,} rounds" in bundle.notes[0]
    assert bundle.notes[0] in {one.reason for one in rounds[0].damages}
