"""What is published next, of landed rounds in a folder and what the database says of them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from offsetguard.collect.backlog import CAUGHT_UP, ROWS_AT_ONCE, TRIES, given_up, is_live, next_waiting
from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.config.workspace import MANIFEST_FILE_NAME
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.store.models import CycleRow
from offsetguard.store.published_intervals import PublishedInterval

START = datetime(2026, 11, 21, 10, tzinfo=UTC)


def minute(number: int) -> Interval:
    return Interval(START + timedelta(minutes=number))


class Backlog:
    """Clusters `a` and `b`; minutes are numbers."""

    def __init__(self, engine: Engine, landing: Path) -> None:
        """Nothing has landed yet."""
        self.engine, self.landing = engine, landing

    def land(self, cluster: str, *numbers: int, row_count: int = 1) -> None:
        for number in numbers:
            at, counts = minute(number), {"queue_snapshots": row_count}
            when = {"interval_start": at.start, "started_at": at.start, "finished_at": at.end}
            manifest = Manifest(cluster=cluster, requests=RequestCounts(), row_counts=counts, **when)
            folder = self.landing / cluster / at.name
            folder.mkdir(parents=True)
            (folder / MANIFEST_FILE_NAME).write_text(manifest.to_json(), encoding="utf-8")

    def publish(self, cluster: str, number: int, *, at: int) -> None:
        """Publish it, as of the end of minute `at`."""
        row = PublishedInterval(cluster, minute(number), "run", minute(at).end, "audited", {}, "{}")
        published_intervals.record(self.engine, row)

    def fail(self, cluster: str, number: int, step: str, *, times: int = TRIES) -> None:
        for run in range(times):
            at = minute(number).end + timedelta(seconds=run)
            row = CycleRow(cluster, minute(number).start, f"{step} {run}", at, at, None, error="no", failed_step=step)
            cycles.record(self.engine, row)

    def fail_together(self, *numbers: int, times: int, clusters: str = "ab") -> None:
        """Let runs be killed that published these minutes of these clusters."""
        for run in range(times):
            at = minute(numbers[0]).end + timedelta(seconds=run)
            rows = [
                CycleRow(one, minute(number).start, f"all {run}", at, at, None, error="killed", failed_step="facts")
                for one in clusters
                for number in numbers
            ]
            cycles.record(self.engine, *rows)

    def order(self, *, at: int, **asked: int | bool) -> list[str]:
        """Publish all that waits, in the order in which it is found; names are cluster and minute."""
        order = []
        while found := next_waiting(self.engine, self.landing, ["a", "b"], **asked):  # type: ignore[arg-type]
            numbers = [(one.start - START) // timedelta(minutes=1) for one in found.intervals]
            order.append("".join(found.clusters) + ",".join(map(str, numbers)))
            for cluster in found.clusters:
                for number in numbers:
                    self.publish(cluster, number, at=at + len(order))
        return order


@pytest.fixture
def backlog(engine: Engine, tmp_path: Path) -> Backlog:
    return Backlog(engine, tmp_path / "landing")


def test_nothing_waits_where_nothing_has_landed_or_all_is_published(backlog: Backlog) -> None:
    assert backlog.order(at=0) == []
    backlog.land("a", 0)
    assert backlog.order(at=0) == ["a0"]
    assert backlog.order(at=0) == []
    (backlog.landing / "a" / minute(1).name).mkdir()
    assert backlog.order(at=2) == [], "a round without a manifest has not landed"


def test_a_backlog_goes_oldest_first_and_the_cluster_that_waits_longest_before_the_others(backlog: Backlog) -> None:
    backlog.land("a", *range(4))
    backlog.land("b", *range(4))
    backlog.publish("a", 0, at=0)
    backlog.publish("b", 2, at=3)
    assert backlog.order(at=4) == ["a1,2", "ba3", "b1", "b0"], "b is not kept waiting by the backlog of a"


def test_a_minute_that_waits_of_several_clusters_is_one_publication(backlog: Backlog) -> None:
    backlog.land("a", 0, 1, 2)
    backlog.land("b", 1, 2)
    backlog.publish("a", 0, at=0)
    backlog.publish("b", 0, at=0)
    assert backlog.order(at=2) == ["ab1,2"]


def test_a_cluster_that_fails_goes_by_itself_after_the_others_until_it_is_published(backlog: Backlog) -> None:
    backlog.land("a", 1, 2)
    backlog.land("b", 1, 2)
    backlog.publish("a", 0, at=0)
    backlog.publish("b", 0, at=1)
    backlog.fail("a", 1, "gate", times=1)
    assert backlog.order(at=2) == ["b1,2", "a1", "a2"]
    backlog.land("a", 3)
    backlog.land("b", 3)
    assert backlog.order(at=4) == ["ba3"]


def test_what_ends_a_publication_of_several_is_looked_for_one_by_one_and_none_of_them_is_given_up(
    backlog: Backlog,
) -> None:
    backlog.land("a", 1, 2)
    backlog.land("b", 1, 2)
    backlog.fail_together(1, times=1)
    found = next_waiting(backlog.engine, backlog.landing, ["a", "b"])
    assert found is not None
    assert found.clusters == ("a", "b"), "once may be the machine"
    backlog.fail_together(1, times=TRIES)
    backlog.fail("a", 1, "facts", times=TRIES)
    assert given_up(backlog.engine, backlog.landing, "a") == [minute(1)]
    assert backlog.order(at=2) == ["a2", "b1", "b2"]


def test_what_ends_a_publication_of_several_minutes_is_looked_for_one_by_one_as_well(backlog: Backlog) -> None:
    backlog.land("a", 1, 2, 3)
    backlog.fail_together(1, 2, 3, times=TRIES, clusters="a")
    assert given_up(backlog.engine, backlog.landing, "a") == []
    assert backlog.order(at=4) == ["a1", "a2", "a3"]


def test_minutes_that_wait_go_together_as_far_as_they_wait_of_the_same_clusters(backlog: Backlog) -> None:
    backlog.land("a", 1, 2, 3, 5, 6)
    backlog.land("b", 1, 2, 4, 5, 6)
    assert backlog.order(at=7) == ["ab1,2", "a3", "b4", "ab5,6"]


def test_the_first_minute_of_an_hour_goes_by_itself_and_no_publication_is_of_two_hours(backlog: Backlog) -> None:
    """The one folds the usual traffic of the hour before, and what is usual is that of the hour."""
    backlog.land("a", 58, 59, 60, 61, 62)
    assert backlog.order(at=63) == ["a58,59", "a60", "a61,62"]
    backlog.land("a", 119, 121)
    assert backlog.order(at=122) == ["a119", "a121"]


def test_minutes_of_many_rows_go_one_by_one(backlog: Backlog) -> None:
    backlog.land("a", 1, 2, 3, row_count=ROWS_AT_ONCE // 2)
    assert backlog.order(at=4) == ["a1,2", "a3"]
    backlog.land("a", 5, 6, row_count=ROWS_AT_ONCE * 2)
    assert backlog.order(at=7) == ["a5", "a6"]


def test_of_a_long_backlog_the_newest_minutes_go_first_and_none_is_dropped(backlog: Backlog) -> None:
    backlog.land("a", *range(CAUGHT_UP + 3))
    backlog.publish("a", 0, at=0)
    newest = ",".join(str(number) for number in range(3, CAUGHT_UP + 3))
    assert backlog.order(at=20) == [f"a{newest}", "a2", "a1"]


def test_where_publishing_is_slower_than_time_the_newest_minute_goes_first(backlog: Backlog) -> None:
    backlog.land("a", *range(4))
    backlog.publish("a", 0, at=0)
    assert backlog.order(at=4, in_order=1) == ["a3", "a2", "a1"]


def test_whoever_does_something_else_takes_only_what_is_live(backlog: Backlog) -> None:
    backlog.land("a", 0, 2)
    backlog.land("b", 3)
    backlog.publish("a", 1, at=1)
    assert backlog.order(at=3, live_only=True) == ["b3", "a2"]
    assert [is_live(backlog.engine, "a", minute(number)) for number in (1, 2, 3)] == [False, False, True]


def test_what_failed_by_itself_twice_is_left_out_and_what_spark_failed_is_not(backlog: Backlog) -> None:
    """Otherwise what Spark dies of would be tried for ever, and nothing behind it; Spark may be away for hours."""
    backlog.land("a", *range(4))
    backlog.fail("a", 1, "gate")
    backlog.fail("a", 2, "session", times=60)
    backlog.fail("a", 3, "write", times=TRIES - 1)
    assert backlog.order(at=4) == ["a0", "a2", "a3"]
    assert given_up(backlog.engine, backlog.landing, "a") == [minute(1)]


def test_what_failed_in_this_session_is_not_tried_again_in_it(backlog: Backlog) -> None:
    backlog.land("a", 0, 1)
    found = next_waiting(backlog.engine, backlog.landing, ["a"], without={("a", minute(0))})
    assert found is not None
    assert (found.intervals, found.is_live) == ((minute(1),), True)
