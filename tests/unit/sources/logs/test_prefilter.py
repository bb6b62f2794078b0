"""The cheap tests before the patterns lose no line: neither by how it begins, nor where files are split."""

from __future__ import annotations

import re
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.sources.logs.events import LogEvent, Skipped, read_records
from offsetguard.sources.logs.log_stream import blocks_of
from offsetguard.sources.logs.matching import PATTERNS, SOUND_HEAD, beginnings, wanted_head
from offsetguard.sources.logs.pattern import END
from offsetguard.sources.logs.records import LAYOUTS, RECORD_START, RecordReader
from offsetguard_peers.cases.running import examples, for_each

EXCERPTS = sorted((Path(__file__).parent / "excerpts").glob("*.log"))
WANTED = re.compile(wanted_head(PATTERNS))
SOUND = re.compile(SOUND_HEAD)


@pytest.mark.slow
@for_each("pattern", PATTERNS, name_of=lambda pattern: f"{pattern.kind} {pattern.regex[:40]}")
@settings(max_examples=examples(0.1))
@given(data=st.data())
def test_a_message_of_a_pattern_is_wanted_and_its_groups_have_no_line_feed(pattern, data):
    """The second: Spark reads all groups with one replacement and separates them by line feeds."""
    ends_lines = pattern.regex.replace(END + r"\n", r"\n").replace(END, r"\n")
    message = data.draw(st.from_regex(ends_lines))
    match = re.search(pattern.regex, message)
    assert match is not None
    assert not any("\n" in (group or "") for group in match.groups())
    assert message.startswith(tuple(beginnings(pattern.regex)))
    assert all(WANTED.search(layout.example + message) for layout in LAYOUTS)


def test_every_pattern_begins_with_something() -> None:
    """A pattern that may begin with anything makes every line of every log one to look at.

    And Spark tells by a line feed in front what a pattern's groups found: no message may begin with one itself.
    """
    anything = [
        pattern.kind for pattern in PATTERNS if any(text[:1] in {"", "\n"} for text in beginnings(pattern.regex))
    ]
    assert not anything, f"these patterns need a literal beginning: {anything}"


HEADS = st.sampled_from(
    [layout.example for layout in LAYOUTS]
    + ["2026-02-29 01:02:03 INFO a - ", "2028-02-29 01:02:03 INFO a - ", "2026-13-01 00:00:00 INFO - ", "x - ", ""]
)
MESSAGES = st.sampled_from(
    [
        "PULL_OFFSET_MOVED:correction offset. topic=T, groupId=G, requestOffset=1, newOffset=2, suggestBrokerId=0",
        "a - PULL_OFFSET_MOVED:correction offset. topic=T",
        "unlockBatch, Group: G",
        "nothing - that we know",
        "",
    ]
)


@given(HEADS, MESSAGES)
def test_what_is_not_wanted_and_sound_is_a_readable_record_of_no_pattern(head: str, message: str) -> None:
    line = head + message
    if re.match(RECORD_START, line) and SOUND.search(line) and not WANTED.search(line):
        assert [type(outcome) for outcome in read_records(line.encode(), UTC)] == [Skipped]


def test_most_lines_of_real_logs_are_not_looked_at_twice() -> None:
    looked_at = recognised = 0
    for path in EXCERPTS:
        reader = RecordReader()
        records = [*reader.feed(path.read_bytes()), *reader.finish(with_half_line=True)]
        for record in records:
            looked_at += not SOUND.search(record.text) or bool(WANTED.search(record.text))
        recognised += sum(isinstance(one, LogEvent) for one in read_records(path.read_bytes(), UTC))
    assert recognised <= looked_at <= 1.1 * recognised


LINES = st.lists(
    st.sampled_from(
        [
            b"2026-11-21 06:45:30 INFO a - x",
            b"\tat java.lang.Thread.run",
            b"\0\0\x002026-11-21 06:45:30 INFO a - y\r",
            b"",
            "\t订单\r".encode(),
        ]
    ),
    max_size=30,
)


@given(lines=LINES, torn=st.booleans(), block_bytes=st.integers(1, 90))
def test_blocks_tell_where_their_lines_begin_and_what_follows(tmp_path_factory, lines, torn, block_bytes):
    content = b"\n".join(lines) if torn else b"".join(line + b"\n" for line in lines)
    path = tmp_path_factory.mktemp("blocks") / "broker.log"
    path.write_bytes(content)
    blocks = list(blocks_of(str(path), block_bytes))
    starts = [0, *(at + 1 for at, byte in enumerate(content) if byte == 0x0A)]
    for number, block in enumerate(blocks):
        assert block.start == number * block_bytes
        expected = next((at for at in starts if at > block.start), len(content)) if number else 0
        assert block.first_position == expected
        following = blocks[number + 1].first_position if number + 1 < len(blocks) else None
        assert block.end_position == following
        behind = [] if following is None else content[following:].split(b"\n")
        continuing = _until_a_record_begins(behind if behind[-1:] != [b""] else behind[:-1])
        assert block.continuation == ("\n".join(continuing) if continuing else None)


def _until_a_record_begins(lines: list[bytes]) -> list[str]:
    texts: list[str] = []
    for line in lines:
        text = line.lstrip(b"\0").removesuffix(b"\r").decode()
        if re.match(RECORD_START, text):
            break
        texts.append(text)
    return texts
