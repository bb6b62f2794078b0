"""What the judge makes of landed rounds while Spark is late is what Spark publishes of them later."""

import copy
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.published import read_interval_facts, unaudited_facts
from offsetguard.model.errors import SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_waiting import publish_waiting
from offsetguard_spark.recompute import Recomputer, RecomputeReport

PUBLISHED, LATE = 4, 3  # rounds: of the oldest three only what was said is read again
# what is compared with another round: the pipeline's with its last interval, the judge's with one a minute older
OF_TIME_BETWEEN = frozenset({"produce_tps", "consume_tps", "pull_tps"})


class Rounds:
    """Minutes of a topic: queue 0 is consumed as it is written, queue 1 stands still, queue 2 comes and goes."""

    def __init__(self, workspace: Workspace, snapshot: Any) -> None:
        """Nothing has landed yet."""
        self._workspace, self._snapshot, self.landed = workspace, snapshot, []

    def skip(self, landed: list[Interval]) -> None:
        """Go on behind rounds that landed before."""
        self.landed = list(landed)
        self._snapshot.interval = Interval(landed[-1].end)

    def go_on_at(self, minute: int) -> None:
        """Let the next round be of a later minute of this hour."""
        self._snapshot.interval = Interval(self._snapshot.interval.start.replace(minute=minute))

    def land(self) -> Interval:
        """Land one more minute."""
        number, now = len(self.landed), copy.deepcopy(self._snapshot)
        now.broker()
        now.topic("orders")
        now.group("billing", online_client_count=1, message_model="clustering")
        for name in ("a@1", "b@1") if number != PUBLISHED else ():  # clients that come and go, as their table does
            more = {"broker_name": "broker-a", "broker_id": 0, "subscriptions": ["orders *"]}
            now.add("client_snapshots", consumer_group="billing", client_id=name, **more)
        for queue_id, offsets in enumerate(((0, 100 * number, 100 * number), (0, 50, 60 + number), (0, 7, 9))):
            if queue_id < 2 or number % 3 != 1:
                now.queue("billing", "orders", queue_id, offsets)
            now.topic_queue("orders", queue_id, offsets[0], offsets[2])
        now.move(number, 10, 20 + number, now.read_at)
        now.land(self._workspace)
        self.landed.append(now.interval)
        self._snapshot.move_on()
        return now.interval


@pytest.fixture
def published(kept_workspace, new_publisher, snapshot) -> Callable[..., tuple[Publisher, Rounds]]:
    """Give a publisher, and rounds of which the first PUBLISHED are published; `say` gets what is said."""

    def publish_first(workspace: Workspace) -> list[Interval]:
        rounds = Rounds(workspace, copy.deepcopy(snapshot))
        for _ in range(PUBLISHED):
            rounds.land()
        publish_waiting(new_publisher(workspace), lambda: rounds.landed[-1].end)
        return rounds.landed

    def opened(say: Callable[[str], None] = [].append) -> tuple[Publisher, Rounds]:
        workspace = kept_workspace.restored(publish_first)
        rounds = Rounds(workspace, snapshot)
        rounds.skip(kept_workspace.reports)
        return new_publisher(workspace, say), rounds

    return opened


def test_what_landed_while_spark_was_away_is_published_in_order_and_is_what_was_judged_meanwhile(
    published: Callable[..., tuple[Publisher, Rounds]], config: Config
) -> None:
    said: list[str] = []
    publisher, rounds = published(said.append)
    workspace, until = publisher.workspace, rounds.landed[-1].end
    late = [rounds.land() for _ in range(LATE)]
    unaudited = unaudited_facts(workspace, publisher.engine, "demo", late[-1], config, say=said.append)
    assert (unaudited.audited, unaudited.unpublished_since, said) == (False, until, [])
    assert published_intervals.newest(publisher.engine, "demo").interval.end == until, "nothing is published"

    (workspace.landing_folder / "demo" / late[1].name / "queue_snapshots.parquet").write_bytes(b"damaged")
    unaudited = unaudited_facts(workspace, publisher.engine, "demo", late[-1], config, say=said.append)
    session = publish_waiting(publisher, lambda: late[-1].end)
    assert list(session.published) == [("demo", one) for one in (late[0], late[2])], "oldest first"
    assert list(session.failed) == [("demo", late[1])]
    assert any(f"{late[1].name}: " in line and "going on without it" in line for line in said)
    row = published_intervals.get(publisher.engine, "demo", late[-1])
    facts = read_interval_facts(workspace, row, Manifest.from_json(row.manifest_json))
    assert len(facts.queues) >= 2
    assert facts.queues[0].window.sample_count > LATE, "the state goes on from what was published, without a hole"
    for kind in ("queues", "groups", "topics", "brokers", "offset_moves", "online_groups"):
        assert compared(unaudited, kind) == compared(facts, kind), kind

    again = publish_waiting(publisher, lambda: late[-1].end)
    assert (list(again.published), list(again.failed)) == ([], [("demo", late[1])]), "once more, and not for ever"
    assert not publish_waiting(publisher, lambda: late[-1].end).failed
    left_out = f"demo: 1 landed intervals, the newest {late[1].name}, failed again and again and are left out"
    assert said[-1].startswith(left_out)


def test_a_recomputation_of_the_past_lets_a_live_minute_go_first(
    published: Callable[..., tuple[Publisher, Rounds]],
) -> None:
    publisher, rounds = published()
    past = rounds.landed[-2:]
    live = rounds.land()
    report = RecomputeReport("demo", past[0].start.isoformat(), past[1].start.isoformat())
    Recomputer(publisher).recompute("demo", past, report, now=live.end)
    assert (report.recomputed, report.failed) == (2, {})
    order = [(one.interval, one.verdict) for one in reversed(cycles.newest(publisher.engine))][PUBLISHED:]
    assert order == [(one, "published") for one in (live, *past)]


def test_where_time_is_over_no_publication_is_begun_that_would_be_ended_amidst(
    published: Callable[..., tuple[Publisher, Rounds]],
) -> None:
    publisher, rounds = published()
    rounds.go_on_at(59)
    first, second = rounds.land(), rounds.land()  # two publications: the first minute of an hour goes by itself
    session = publish_waiting(publisher, lambda: second.end, ends_at=second.end)
    assert (list(session.published), session.out_of_time) == ([("demo", first)], True)


def test_without_a_catalog_the_landed_rounds_alone_have_to_do(
    published: Callable[..., tuple[Publisher, Rounds]], config: Config
) -> None:
    publisher, rounds = published()
    newest = rounds.land()
    (publisher.workspace.home / "catalog.db").unlink()
    said: list[str] = []
    facts = unaudited_facts(publisher.workspace, publisher.engine, "demo", newest, config, say=said.append)
    assert "there is no catalog" in said[0]
    assert max(queue.window.sample_count for queue in facts.queues) == PUBLISHED + 1, "all rounds were folded"


def test_a_damaged_round_is_named_and_left_out_unless_it_is_the_one_that_is_judged(
    workspace: Workspace, new_publisher: Callable[..., Publisher], snapshot: Any, config: Config
) -> None:
    engine, rounds = new_publisher(workspace).engine, Rounds(workspace, snapshot)
    rounds.land()
    damaged, newest = rounds.land(), rounds.land()
    file: Path = workspace.landing_folder / "demo" / damaged.name / "queue_snapshots.parquet"
    file.write_bytes(file.read_bytes()[:100])
    said: list[str] = []
    facts = unaudited_facts(workspace, engine, "demo", newest, config, say=said.append)
    assert str(file) in said[0]
    assert {queue.window.sample_count for queue in facts.queues} == {2}
    for wanted, named in ((damaged, str(file)), (Interval(newest.end), Interval(newest.end).name)):
        with pytest.raises(SnapshotError, match=named):
            unaudited_facts(workspace, engine, "demo", wanted, config, say=print)


def compared(facts: IntervalFacts, kind: str) -> list[dict[str, Any]]:
    """Return records as dictionaries in one order, without what is compared with another round."""
    records = [asdict(one) for one in getattr(facts, kind)]
    order = sorted(records, key=lambda one: [repr(one.get(name)) for name in ("message_queue", "topic", "moved_at")])
    return [{name: value for name, value in one.items() if name not in OF_TIME_BETWEEN} for one in order]
