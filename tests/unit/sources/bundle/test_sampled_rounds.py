"""What several rounds know: rates, growth and log lines of a recorded cluster whose traffic is known."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from offsetguard.cli.parameters import default_config
from offsetguard.collect.collector import snapshots_of_bundle
from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.collect.snapshot import Snapshot
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.rounds import base_round, facts_of_moments, facts_of_rounds, rows_of
from offsetguard.sources.bundle.reader import open_bundle
from offsetguard.tables import LOG_EVENTS, QUEUE_SNAPSHOTS
from offsetguard.tables.group_facts import GroupFacts

BUNDLES = Path(__file__).parents[3] / "data" / "bundles"
CONFIG = default_config({"main": ["127.0.0.1:9"]})
START = datetime(2026, 11, 21, 8, tzinfo=UTC)


@cache
def rounds_of(bundle: str) -> list[Snapshot]:
    """Read a bundle, once for all tests: nothing changes a round."""
    return asyncio.run(snapshots_of_bundle(open_bundle(BUNDLES / bundle), "main", CONFIG))


@cache
def facts_of(bundle: str) -> IntervalFacts:
    return facts_of_rounds(rounds_of(bundle), CONFIG)


@pytest.mark.parametrize("bundle", ["4.9.8-orderly-lock", "4.9.8-subscription-mismatch"])
def test_no_round_knows_a_log_line_that_was_written_behind_it(bundle: str) -> None:
    """Else a finding would be there before its event, and a reset would be compared with offsets of before it."""
    *rounds, last = rounds_of(bundle)
    for one in rounds:
        assert all(at <= one.manifest.finished_at for at in one.tables[LOG_EVENTS.name]["at"].to_pylist() if at)
    assert any(len(one.tables[LOG_EVENTS.name]) for one in (*rounds, last))


def group(facts: IntervalFacts, name: str, topic: str) -> GroupFacts:
    return next(one for one in facts.groups if (one.consumer_group, one.topic) == (name, topic))


def snapshot(at_s: float, *, unseen: bool = False) -> Snapshot:
    at = START + timedelta(seconds=at_s)
    manifest = Manifest(
        cluster="main",
        interval_start=START,
        started_at=at,
        finished_at=at,
        requests=RequestCounts(),
        row_counts={},
        cluster_unseen=unseen,
    )
    return Snapshot(manifest, {})


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param([0], None, id="one round has nothing to be compared with"),
        pytest.param([0, 10, 20], 0, id="the first one when none is a minute older"),
        pytest.param([0, 30, 60, 90, 120], 2, id="the newest that is a minute older"),
        pytest.param([-1, 10, 20], 1, id="not one that saw nothing"),
        pytest.param([-1, 20], None, id="nothing was seen before"),
    ],
)
def test_the_last_round_is_compared_with_one_about_a_minute_before(rounds: list[float], expected: int | None) -> None:
    made = [snapshot(max(0.0, at_s), unseen=at_s < 0) for at_s in rounds]
    assert base_round(made) == expected


def test_sixty_messages_a_second_are_seen_as_such_by_topic_and_group() -> None:
    rounds = rounds_of("4.9.8-healthy")
    facts = facts_of("4.9.8-healthy")
    healthy = group(facts, "G_HEALTHY", "Healthy")
    assert healthy.produce_tps == pytest.approx(60, rel=0.1)
    assert healthy.consume_tps == pytest.approx(60, rel=0.1)
    assert next(one.produce_tps for one in facts.topics if one.topic == "Healthy") == pytest.approx(60, rel=0.1)
    first = facts_of_rounds(rounds[:1], CONFIG)
    assert group(first, "G_HEALTHY", "Healthy").consume_tps is None


@pytest.mark.parametrize(
    "first_commit",
    [
        pytest.param(0, id="always", marks=pytest.mark.slow),
        pytest.param(2, id="after the base", marks=pytest.mark.slow),
        pytest.param(4, id="in the round before the last"),
    ],
)
def test_a_group_that_commits_late_has_rates_since_its_first_commit(first_commit: int) -> None:
    """What was written is counted over the same time, so that both can be compared."""
    rounds = rounds_of("4.9.8-retention-and-queues")
    assert base_round(rounds) == 1
    begun = rounds[first_commit].manifest.started_at
    changed = [with_offsets(one, "WideTopic", begun, written=25, committed=10) for one in rounds]
    found = group(facts_of_rounds(changed, CONFIG), "G_WIDE", "WideTopic")
    assert found.consume_tps == pytest.approx(10 * found.queue_count, rel=0.03)
    assert found.produce_tps == pytest.approx(25 * found.queue_count, rel=0.03)


@pytest.mark.slow
def test_the_share_that_a_filter_lets_through_is_only_told_where_commits_are_known_for_the_whole_minute() -> None:
    """Brokers count the minute: a rate of its last seconds beside theirs would be another share."""
    rounds = rounds_of("4.9.8-subscription-mismatch")
    base = base_round(rounds)
    assert base is not None
    begun = rounds[base + 1].manifest.started_at
    late = facts_of_rounds([with_offsets(one, "OrderTags", begun, written=25, committed=10) for one in rounds], CONFIG)
    known, unknown = (
        group(one, "G_ORDER_TAGS", "OrderTags") for one in (facts_of("4.9.8-subscription-mismatch"), late)
    )
    assert known.filtered
    assert known.consume_tps == pytest.approx(30, rel=0.1)
    assert unknown.consume_tps is None


def with_offsets(one: Snapshot, topic: str, begun: datetime, *, written: int, committed: int) -> Snapshot:
    """Return the round with other offsets of a topic: so many a second since 1970, the commits only from `begun` on."""
    rows = [dict(row) for row in rows_of(one.tables[QUEUE_SNAPSHOTS.name])]
    for row in rows:
        if row["topic"] == topic:
            is_known = one.manifest.started_at >= begun
            row["max_offset"] = round(written * row["max_offset_read_at"].timestamp())
            consumed = round(committed * row["consumer_offset_read_at"].timestamp())
            row["consumer_offset"] = consumed if is_known else None
    return Snapshot(one.manifest, {**one.tables, QUEUE_SNAPSHOTS.name: rows})


def test_log_lines_of_long_ago_tell_of_nothing() -> None:
    rounds = rounds_of("4.9.8-orderly-lock")
    assert facts_of("4.9.8-orderly-lock").lock_waits
    late = facts_of_rounds(rounds, CONFIG, now=rounds[-1].manifest.finished_at + timedelta(hours=1))
    assert late.lock_waits == ()
    assert late.log_lines == ()


def test_the_windows_of_suspect_queues_hold_all_rounds() -> None:
    rounds = rounds_of("4.9.8-orderly-lock")
    facts = facts_of("4.9.8-orderly-lock")
    windows = [one.window for one in facts.queues if one.consumer_group == "G_ORDER_PAY"]
    assert windows
    assert max(one.sample_count for one in windows if one is not None) == len(rounds)


def test_a_lag_of_which_both_sides_were_read_a_minute_apart_is_none() -> None:
    """The producer wrote 60 messages a second in between: 3,300 that no round may call lag."""
    rounds = rounds_of("4.9.8-healthy")
    moments = [(number, one.manifest.finished_at) for number, one in enumerate(rounds, 1)]
    lags = [group(one, "G_HEALTHY", "Healthy").lag for one in facts_of_moments(rounds, moments, CONFIG)]
    assert len(lags) == len(rounds)
    assert max(lag or 0 for lag in lags) < 1_000, lags
