"""Silence must not look like health: what has stopped is told outside, and a dead OffsetGuard by saying nothing."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete

from offsetguard.decide.own_health import troubles_of
from offsetguard.deliver.heartbeat import beat, write_down
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, judged_intervals, outbox, published_intervals
from offsetguard.store.database import writing
from offsetguard.store.locks import PUBLICATION, hold
from offsetguard.store.models import CycleRow, JudgedIntervalRow, Mode, PublishedIntervalRow
from offsetguard.store.outbox import Lane
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard_peers.configs import one_team
from offsetguard_peers.delivery.world import VIEW
from offsetguard_peers.disks import TAKES_NOTHING, TinyDisk
from offsetguard_peers.http_server import HeartbeatListener

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CONFIG = one_team({name: {"name_servers": ["127.0.0.1:9876"]} for name in ("main", "other")}, team="ops")


def judge(engine: Engine, cluster: str, ended: datetime, *, published: bool = True) -> None:
    interval = Interval.containing(ended - MINUTE)
    with writing(engine) as session:
        judged_intervals.record(session, JudgedIntervalRow(cluster, interval.start, ended, Mode.LIVE, 0, 0, 0, 0))
    if published:
        published_intervals.record(engine, PublishedInterval(cluster, interval, "run", ended, "audited", {}, "{}"))


def put(engine: Engine, key: str, at: datetime) -> None:
    with writing(engine) as session:
        outbox.enqueue(session, idempotency_key=key, channel="mail", receiver="ops@example.org", view=VIEW, now=at)


def troubles(engine: Engine, now: datetime = NOW) -> list[tuple[str | None, str]]:
    return [(one.cluster, one.text) for one in troubles_of(engine, CONFIG, now=now)]


@pytest.fixture
def working(engine: Engine) -> Engine:
    """Both clusters were judged and published just now."""
    for cluster in CONFIG.clusters:
        judge(engine, cluster, NOW)
    return engine


def test_a_cluster_that_was_never_judged_is_not_well(engine: Engine) -> None:
    judge(engine, "main", NOW)
    assert troubles(engine) == [("other", "nothing of cluster other was judged so far")]


def cycle_of(ended: datetime, **fields: Any) -> CycleRow:
    return CycleRow("main", ended - MINUTE, "run", ended, ended + timedelta(seconds=50), **{"verdict": None, **fields})


PUBLICATIONS = [
    (None, "No publication has begun; `offsetguard cycles` shows the last publications"),
    (
        {"error": cycles.KILLED, "failed_step": "write"},
        f"The last one, that of 2026-11-21 10:41:00 UTC, failed at write: {cycles.KILLED}; `offsetguard cycles`",
    ),
    (
        {"verdict": "published"},
        "Publishing goes on and is behind: the last one, that of 2026-11-21 10:41:00 UTC, took 50 s; `offsetguard",
    ),
    ({"failed_step": "gate"}, "One is at work, that of 2026-11-21 10:41:00 UTC, since 2026-11-21 10:42:00 UTC; `offs"),
]


@pytest.mark.parametrize(("last", "said"), PUBLICATIONS)
def test_a_publication_that_is_late_is_told_by_cluster_and_minutes_with_what_the_last_one_did(
    working: Engine, last: dict[str, Any] | None, said: str
) -> None:
    """Judged all the same, by what has landed: nothing else shows that it is not audited."""
    with hold(working, PUBLICATION, print) as lock:
        is_at_work = last is not None and not last.keys() & {"error", "verdict"}
        if last is not None:
            cycles.record(working, cycle_of(NOW + MINUTE, **last, running_under=lock.token if is_at_work else None))
        for minute in range(1, 9):
            judge(working, "main", NOW + minute * MINUTE, published=False)
            judge(working, "other", NOW + minute * MINUTE)
            found = troubles(working, NOW + minute * MINUTE)
            assert bool(found) == (minute >= 3), f"{minute} minutes late: {found}"
        ((cluster, text),) = troubles(working, NOW + timedelta(minutes=8, seconds=30))
    assert cluster == "main"
    began = "publishing of cluster main is late: its newest published minute ended 2026-11-21 10:41:00 UTC, "
    assert text.startswith(f"{began}8 min 30 s ago. {said}")


def test_a_cluster_that_is_judged_and_was_never_published_is_told_as_that(working: Engine) -> None:
    with writing(working) as session:
        session.execute(delete(PublishedIntervalRow).where(PublishedIntervalRow.cluster == "main"))
    for minute in range(1, 3):
        assert troubles(working, NOW + minute * MINUTE) == [], "a first start may take so long"
        judge(working, "main", NOW + minute * MINUTE, published=False)
        judge(working, "other", NOW + minute * MINUTE)
    ((cluster, text),) = troubles(working, NOW + 3 * MINUTE)
    assert cluster == "main"
    assert text.startswith(
        "nothing of cluster main was published so far: its minutes are judged since 2026-11-21 10:40:00 UTC, 4 min ago"
    )


def test_where_nothing_is_judged_either_that_alone_is_told(working: Engine) -> None:
    texts = [text for _, text in troubles(working, NOW + 20 * MINUTE)]
    assert [text.partition(" for ")[0] for text in texts] == [
        "nothing of cluster main was judged",
        "nothing of cluster other was judged",
    ]


def test_minutes_that_were_judged_ahead_are_a_trouble_and_no_sign_of_life(working: Engine) -> None:
    """A host whose clock was an hour ahead judged, and was set right; nothing has been judged for eleven minutes."""
    judge(working, "main", NOW + 60 * MINUTE)
    assert [cluster for cluster, _ in troubles(working)] == ["main"]
    (silent, other, ahead) = troubles(working, NOW + 11 * MINUTE)
    assert "nothing of cluster main was judged for 11 min" in silent[1]
    assert other[0] == "other"
    assert "minutes were judged that lie ahead, up to 2026-11-21 11:41:00 UTC, 49 min from now" in ahead[1]


def test_a_cluster_in_which_nothing_is_judged_any_more_is_told_after_ten_minutes_and_alone(working: Engine) -> None:
    judge(working, "main", NOW + 10 * MINUTE)
    assert troubles(working, NOW + 10 * MINUTE) == []
    ((cluster, text),) = troubles(working, NOW + 11 * MINUTE)
    assert cluster == "other"
    assert text.startswith("nothing of cluster other was judged for 11 min: the newest judged minute ended")


def test_judging_the_past_is_no_sign_of_life(working: Engine) -> None:
    judge(working, "main", NOW - 60 * MINUTE)
    assert [cluster for cluster, _ in troubles(working, NOW + 20 * MINUTE)] == ["main", "other"]


def test_an_outbox_that_does_not_drain_is_told_after_a_quarter_of_an_hour_whatever_is_tried_meanwhile(
    working: Engine,
) -> None:
    put(working, "1", NOW - 16 * MINUTE)
    put(working, "2", NOW - MINUTE)
    ((cluster, text),) = troubles(working)
    assert cluster is None
    assert text.startswith("the outbox does not drain: 2 messages, the oldest since 2026-11-21 10:25")
    message = outbox.claim_next(working, Lane("mail", "ops@example.org"), now=NOW)
    assert message is not None
    assert len(troubles(working)) == 1, "a deliverer that hangs with it has not delivered it"
    outbox.mark_retry(working, message, next_attempt_at=NOW + 30 * MINUTE, error="451 later")
    assert len(troubles(working)) == 1, "nor has one that will try again"
    outbox.mark_accepted(working, message, accepted_at=NOW, receipt="<1@offsetguard>")
    assert troubles(working) == []


@pytest.mark.parametrize("way_out", ["redrive", "dismiss"])
def test_what_was_refused_for_good_is_trouble_until_an_operator_redrives_or_dismisses_it(
    working: Engine, way_out: str
) -> None:
    put(working, "1", NOW)
    message = outbox.claim_next(working, Lane("mail", "ops@example.org"), now=NOW)
    assert message is not None
    outbox.mark_failed(working, message, error="550 5.1.1 no such user")
    ((cluster, text),) = troubles(working)
    assert cluster is None
    assert text.startswith("1 message was refused for good: `offsetguard outbox list` says why")
    changed = outbox.redrive(working) if way_out == "redrive" else outbox.dismiss(working)
    assert (changed, troubles(working)) == (1, [])


@pytest.mark.parametrize("question", ["", "?create=1"])
def test_the_heartbeat_says_well_or_what_is_wrong(question: str) -> None:
    with HeartbeatListener() as listener:
        address = f"{listener.url}{question}"
        assert beat(address, []) is None
        assert beat(address, ["nothing was judged", "the outbox does not drain"]) is None
        assert listener.heard == [
            ("GET", f"/ping/secret-key{question}", ""),
            ("POST", f"/ping/secret-key/fail{question}", "nothing was judged\nthe outbox does not drain"),
        ]


def test_a_dead_scheduler_is_heard_as_silence_and_a_judge_that_died_as_trouble(working: Engine) -> None:
    """Whoever listens misses the beats of sweeps that do not come; those that come do not cover for the judge."""
    with HeartbeatListener() as listener:

        def sweep(now: datetime) -> None:
            beat(listener.url, [text for _, text in troubles(working, now)])

        sweep(NOW)
        assert [method for method, _, _ in listener.heard] == ["GET"]
        # from here on nobody judges: the sweeps go on for a while, then the scheduler dies and nothing calls them
        sweep(NOW + 12 * MINUTE)
        assert [method for method, _, _ in listener.heard] == ["GET", "POST"]
        assert "nothing of cluster main was judged for 12 min" in listener.heard[1][2]
    assert len(listener.heard) == 2, "nothing but a sweep beats: no thread, no process of its own goes on"


def test_a_listener_that_is_away_or_refuses_is_told_and_its_address_is_not() -> None:
    with HeartbeatListener(status=503) as listener:
        assert beat(listener.url, []) == "the heartbeat was answered with HTTP 503"
    unheard = beat(listener.url, ["trouble"])
    assert unheard is not None
    assert unheard.startswith("the heartbeat was not heard: ")
    assert "secret-key" not in unheard


def test_a_heartbeat_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    assert write_down(tmp_path / "heartbeat.json", ["a \ud800 cluster"], NOW) is None
    kept = (tmp_path / "heartbeat.json").read_text(encoding="utf-8")
    (tmp_path / "taken" / "heartbeat.json").mkdir(parents=True)
    for file in (tmp_path / "nowhere" / "heartbeat.json", tmp_path / "taken" / "heartbeat.json"):
        assert f"{file}: cannot be written: " in str(write_down(file, [], NOW))
    assert json.loads(kept) == {"at": NOW.isoformat(), "healthy": False, "troubles": ["a \ud800 cluster"]}
    assert sorted(one.name for one in tmp_path.rglob("*heartbeat*")) == ["heartbeat.json", "heartbeat.json"]


def test_a_disk_that_takes_nothing_keeps_no_half_of_a_heartbeat(disk: TinyDisk) -> None:
    file = disk.folder / "heartbeat.json"
    for break_it, said in TAKES_NOTHING.values():
        break_it(disk)
        assert str(write_down(file, [], NOW)).startswith(f"{file}: cannot be written: {said}")
        assert disk.files() == []


@pytest.mark.parametrize("address", ["", "hc-ping.com/secret-key", "file:///etc/passwd", "ftp://host/secret-key"])
def test_an_address_that_is_none_is_refused_without_showing_it(address: str) -> None:
    assert beat(address, []) == "the heartbeat has no address of the form https://host/..."
