"""Timelines after Alertmanager's acceptance tests, judged minute by minute (`offsetguard_peers.judging.timelines`)."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.store import incidents, outbox
from offsetguard.store.database import reading
from offsetguard_peers.cases.running import read_cases
from offsetguard_peers.databases import fresh_database, newest_incidents
from offsetguard_peers.judging.timelines import MINUTE, START, Course, check

TIMELINES = [
    pytest.param(course, id=f"{file.stem}: {course['why']}")
    for file in sorted((Path(__file__).parent / "timelines").glob("*.yml"))
    for course in read_cases(file)
]
(EVERYWHERE,) = read_cases(Path(__file__).parent / "everywhere.yml")


@pytest.mark.parametrize("script", TIMELINES)
def test_everything_that_is_expected_is_said_in_its_time_and_nothing_else(
    engine: Engine, script: dict[str, Any]
) -> None:
    course = Course(engine, script)
    course.run()
    check(course)
    assert len(outbox.messages(engine)) == len(course.said)
    for wanted in script.get("history", ()):
        with reading(engine) as session:
            (incident,) = (one for one in newest_incidents(engine) if one.subject.consumer_group == wanted["group"])
            kinds = [one.kind.value for one in incidents.events_of(session, incident.incident_id)]
        assert kinds == wanted["kinds"]
    for minute, reason in script.get("reasons", {}).items():
        (report,) = (one for one in course.reports if one.interval.start == START + minute * MINUTE)
        assert reason in {one.decision.reason.value for one in report.decisions}


@pytest.mark.slow
def test_a_course_gives_the_same_messages_on_every_database_and_at_every_run(
    each_engine: Engine, tmp_path: Path
) -> None:
    """Their keys too: a judge that dies and runs again finds its own messages."""
    second = fresh_database(f"sqlite:///{tmp_path}/second.db")
    said = []
    for engine in (each_engine, second):
        course = Course(engine, EVERYWHERE)
        course.run()
        check(course)
        said.append([(minute, one.idempotency_key) for minute, one in course.said])
    assert said[0] == said[1]
    second.dispose()
