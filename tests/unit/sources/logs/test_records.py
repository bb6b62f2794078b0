"""Bytes in, records out: whatever the pieces, and whatever the bytes."""

import itertools
from datetime import timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.sources.logs.events import LogEvent, Skipped, Unreadable, read_records
from offsetguard.sources.logs.records import MAX_RECORD_BYTES, Record, RecordReader

STAMP = b"2026-11-21 15:00:00 INFO main - "
LINES = st.lists(
    st.one_of(
        st.binary(max_size=20).map(lambda text: STAMP + text.replace(b"\n", b"")),
        st.sampled_from([b"", b"\tat a.b.C(C.java:1)", b"\r", b"\0\0", b"\xff\xfe", b"2026-11-21"]),
    ),
    max_size=12,
)


def read(data: bytes, cuts: list[int], position: int = 0) -> tuple[list[Record], RecordReader]:
    reader = RecordReader(position)
    records = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in itertools.pairwise(edges):
        records += reader.feed(data[begin:end])
    return records, reader


@given(LINES, st.lists(st.integers(0, 1_000), max_size=8))
def test_the_pieces_make_no_difference(lines, cuts):
    data = b"\n".join(lines)
    one, whole = read(data, [])
    many, pieces = read(data, cuts)
    assert one == many
    assert whole.next_position == pieces.next_position
    assert list(whole.finish(with_half_line=True)) == list(pieces.finish(with_half_line=True))


@given(LINES, st.lists(st.integers(0, 1_000), max_size=8))
def test_records_begin_where_they_say_and_cover_the_file_in_order(lines, cuts):
    data = b"".join(line + b"\n" for line in lines)
    records, reader = read(data, cuts)
    records += reader.finish()
    for record in records:
        start = data[record.position :].decode("utf-8", "backslashreplace").replace("\r\n", "\n").replace("\0", "")
        assert start.startswith(record.text.replace("\0", ""))
        assert record.line == data[: record.position].count(b"\n") + 1
    assert [record.position for record in records] == sorted({record.position for record in records})


@given(LINES, LINES)
def test_reading_on_at_the_next_position_gives_what_reading_at_once_gives(first, second):
    head, tail = (b"".join(line + b"\n" for line in lines) for lines in (first, second))
    at_once, whole = read(head + tail, [])
    before, reader = read(head, [])
    after, rest = read((head + tail)[reader.next_position :], [], reader.next_position)
    texts = [record.text for record in (*at_once, *whole.finish())]
    assert [record.text for record in (*before, *after, *rest.finish())] == texts


@given(st.binary(max_size=300))
def test_any_bytes_end_in_events_or_in_lines_that_are_told(data):
    zone = timezone(timedelta(hours=8))
    assert all(isinstance(outcome, LogEvent | Unreadable | Skipped) for outcome in read_records([data], zone))


def test_a_half_line_is_not_consumed_until_its_line_feed():
    records, reader = read(STAMP + b"whole\n" + STAMP + b"ha", [])
    assert records == []
    assert reader.complete_position == len(STAMP) + 6
    records = list(reader.feed(b"lf\n"))
    assert [record.text for record in records] == [(STAMP + b"whole").decode()]


def test_continuation_lines_of_a_record_that_was_handed_out_are_left_out():
    records, reader = read(b"\tat a.b.C(C.java:1)\n" + STAMP + b"next\n", [], position=100)
    assert [record.text for record in (*records, *reader.finish())] == [(STAMP + b"next").decode()]


def test_lines_before_the_first_time_stamp_of_a_file_are_one_record_without_a_head():
    records, reader = read(b"{}\n{}\n" + STAMP + b"next\n", [])
    (first, second) = (*records, *reader.finish())
    assert (first.has_head, first.line_count, second.has_head, second.line) == (False, 2, True, 3)


def test_a_line_is_cut_at_64_kib_and_the_next_one_found():
    line = STAMP + b"x" * (3 * MAX_RECORD_BYTES)
    records, reader = read(line + b"\n" + STAMP + b"next\n", [])
    (first,) = records
    assert len(first.text) == MAX_RECORD_BYTES
    assert reader.next_position == len(line) + 1


def test_an_endless_stack_trace_holds_nothing_back():
    reader = RecordReader()
    records = list(reader.feed(STAMP + b"trouble\n"))
    for _ in range(2_000):
        records += reader.feed(b"\tat " + b"x" * 100 + b"\n")
    assert len(records) == 1
    assert reader.open_text is None
    assert reader.next_position == reader.complete_position


def test_a_hole_of_zero_bytes_is_no_part_of_a_line():
    hole = b"\0" * (2 * MAX_RECORD_BYTES)
    records, reader = read(hole + STAMP + b"first\n", [1, 70_000, 131_072])
    (record,) = (*records, *reader.finish())
    assert (record.position, record.text, record.has_head) == (len(hole), (STAMP + b"first").decode(), True)


def test_bytes_that_are_no_utf_8_stay_visible():
    _, reader = read(STAMP + b"\xff\xc3\xa9\n", [])
    assert reader.open_text == STAMP.decode() + "\\xffé"
