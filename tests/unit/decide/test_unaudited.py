"""What is told while nothing is published says so, and the next published facts confirm it or close it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.decide.judge import JudgeReport
from offsetguard.deliver.messages.mail import render_mail
from offsetguard.deliver.messages.slack import render_slack
from offsetguard.facts.interval import IntervalFacts
from offsetguard.model.incident import EventKind, Incident
from offsetguard.store import incidents
from offsetguard.store.database import reading
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import START, facts, group, judge

LAGGING = group("billing", 20_000)


def unaudited(minute: int, *groups: Any) -> IntervalFacts:
    given = facts(minute, *groups)
    return facts(minute, *groups, audited=False, unpublished_since=given.now - timedelta(minutes=1 + minute))


def about_the_group(report: JudgeReport) -> Any:
    return next(message.view for message in report.messages if message.view.firing[0].consumer_group == "billing")


def mailed(view: Any) -> str:
    mail = render_mail(view, sender="a@example.org", receiver="b@example.org", idempotency_key="1", sent_at=START)
    return "".join(part.get_content() for part in mail.walk() if part.get_content_maintype() == "text")


def of_the_group(engine: Engine) -> Incident:
    return next(one for one in newest_incidents(engine) if one.subject.consumer_group == "billing")


def history_of(engine: Engine, incident: Incident) -> list[EventKind]:
    with reading(engine) as session:
        return [event.kind for event in incidents.events_of(session, incident.incident_id)]


@pytest.mark.parametrize(("language", "said"), [("en", "Not checked yet: "), ("zh", "尚未校验：")])
def test_the_message_says_that_its_facts_are_not_audited(engine: Engine, language: str, said: str) -> None:
    view = about_the_group(judge(engine, unaudited(0, LAGGING))).model_copy(update={"language": language})
    assert said not in mailed(view)[:300], "a footnote"
    assert said in json.dumps(render_slack(view, idempotency_key="1").blocks, ensure_ascii=False)
    audited = about_the_group(judge(engine, facts(1, group("billing", 90_000, old=True))))
    assert said not in mailed(audited.model_copy(update={"language": language}))


def test_the_next_published_facts_confirm_it(engine: Engine) -> None:
    judge(engine, unaudited(0, LAGGING))
    assert not of_the_group(engine).evidence.audited
    judge(engine, unaudited(1, LAGGING))
    assert EventKind.CONFIRMED not in history_of(engine, of_the_group(engine))
    judge(engine, facts(2, LAGGING))
    confirmed = of_the_group(engine)
    assert (confirmed.is_open, confirmed.evidence.audited) == (True, True)
    assert history_of(engine, confirmed) == [EventKind.OPENED, EventKind.CONFIRMED]


def test_the_next_published_facts_close_what_they_do_not_show(engine: Engine) -> None:
    """At once, and saying so; facts that are not audited, either, end it as slowly as any others."""
    judge(engine, unaudited(0, LAGGING))
    judge(engine, unaudited(1, group("billing", 0)))
    assert of_the_group(engine).is_open
    judge(engine, facts(2, group("billing", 0)))
    closed = of_the_group(engine)
    assert closed.is_over
    assert closed.resolution == "the published facts do not show it; it was told by what had landed, not audited"


def test_that_facts_are_old_is_told_to_the_default_team_and_ends_with_a_publication(engine: Engine) -> None:
    told = [
        (minute, message.receiver)
        for minute in range(4)
        for message in judge(engine, unaudited(minute)).messages
        if message.view.rule_id == "facts_not_published"
    ]
    assert told == [(2, "operations@example.org")], "three minutes after the last publication"
    for minute in (4, 5):
        judge(engine, facts(minute))
    (incident,) = newest_incidents(engine)
    assert (incident.subject.rule_id, incident.is_over) == ("facts_not_published", True)
