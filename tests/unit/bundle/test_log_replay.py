"""The logs of a bundle grow from round to round as they did when they were written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsetguard.config import LogSource
from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle.log_replay import LogReplay, zone_of

LOG = (
    b"a line of an older record\n"
    b"2026-11-21 15:53:59 INFO one\n"
    b"2026-11-21 15:54:00 WARN two\n"
    b"\tat some.java.Class\n"
    b"2026-11-21 15:54:59 INFO three\n"
    b"2026-11-21 15:55:00 INFO four"
)


@pytest.fixture
def replay(tmp_path: Path) -> LogReplay:
    folder = tmp_path / "with [brackets] and spaces"
    folder.mkdir()
    (folder / "broker.log").write_bytes(LOG)
    (tmp_path / "grown").mkdir()
    pattern = str(folder).replace("[", "[[]") + "/*.log"
    source = LogSource.model_construct(name="broker-a-0", files=[pattern], broker_name="broker-a", time_zone="+08:00")
    return LogReplay([source], tmp_path / "grown")


def test_each_round_finds_the_lines_up_to_its_minute(replay: LogReplay, tmp_path: Path) -> None:
    lines = LOG.split(b"\n")
    file = tmp_path / "grown" / "0" / "broker.log"
    for minute, count in ((53, 1), (54, 2), (55, 5)):
        replay.advance(datetime(2026, 11, 21, 7, minute, tzinfo=UTC))
        assert file.read_bytes().splitlines() == lines[:count]
    replay.advance(None)
    assert file.read_bytes() == LOG
    assert replay.sources[0].files == [f"{file.parent}/*.log"]


def test_zones_are_offsets_or_names() -> None:
    summer = datetime(2026, 7, 1, 12, tzinfo=UTC)
    offsets = [summer.astimezone(zone_of(name)).utcoffset() for name in ("+08:00", "-05:30", "Asia/Shanghai", "UTC")]
    assert [offset.total_seconds() / 3600 for offset in offsets if offset is not None] == [8, -5.5, 8, 0]
    with pytest.raises(BundleError, match="there is no time zone 'Mars'"):
        zone_of("Mars")
