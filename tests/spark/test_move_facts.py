"""Offset moves are counted over the look-back window, each event once, and never from a later interval."""

from __future__ import annotations

from datetime import timedelta

from offsetguard.intervals import Interval
from offsetguard.tables import OFFSET_MOVES
from offsetguard_spark.moves import offset_move_facts
from offsetguard_spark.tables import spark_schema


def test_one_row_per_group_client_queue_and_requested_offset(spark, snapshot) -> None:
    interval = snapshot.interval
    end = interval.end
    earlier = {"interval_start": (interval.start - timedelta(minutes=5))}
    later = {"interval_start": (interval.start + timedelta(minutes=1))}
    snapshot.move(1, 100, 300, end - timedelta(minutes=6), **earlier)
    snapshot.move(2, 100, 310, end - timedelta(minutes=5), **earlier)
    snapshot.move(2, 100, 310, end - timedelta(minutes=5))  # read again after a crash: the same event
    snapshot.move(3, 100, 320, end - timedelta(seconds=20))
    snapshot.move(4, 100, 330, end - timedelta(seconds=10), **later)  # a backfill must not see it
    snapshot.move(5, 100, 290, end - timedelta(minutes=31), **earlier)  # before the window
    snapshot.move(6, 100, 320, end - timedelta(seconds=20), client_id="10.0.0.1@7")
    snapshot.move(7, 200, 320, end - timedelta(seconds=20))
    snapshot.move(3, 100, 321, end - timedelta(seconds=5))  # the event topic was recreated: offset 3 is another event
    snapshot.move(8, 100, 320, end - timedelta(seconds=20), cluster="other")
    names = [column.name for column in OFFSET_MOVES.columns]
    rows = [tuple(row[name] for name in names) for row in snapshot.rows["offset_moves"]]
    frame = spark.createDataFrame(rows, spark_schema(OFFSET_MOVES))

    found = offset_move_facts(frame, "demo", Interval(interval.start), timedelta(minutes=30)).collect()

    figures = {
        (row.client_id, row.requested_offset): (row.move_count, row.corrected_offset, row.first_moved_at.timestamp())
        for row in found
    }
    first = (end - timedelta(minutes=6)).timestamp()
    once = (end - timedelta(seconds=20)).timestamp()
    assert figures == {
        (None, 100): (4, 321, first),
        ("10.0.0.1@7", 100): (1, 320, once),
        (None, 200): (1, 320, once),
    }
