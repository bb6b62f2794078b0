"""The judge keeps what happens to incidents in its own transaction, and nothing of what was only pending."""

import pytest
from sqlalchemy import Engine

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Language, Locale
from offsetguard.model.incident import EventKind
from offsetguard.store import incidents
from offsetguard.store.database import reading
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard_peers.cases.texts import english_words
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import MINUTE, START, facts, group, judge


def skewed(clock_ahead_ms: int) -> dict[str, tuple[BrokerFacts, ...]]:
    return {
        "brokers": tuple(
            BrokerFacts(
                broker_name=name,
                broker_id=0,
                listed=True,
                answered=True,
                clock_ahead_ms=ahead_ms,
                page_cache_lock_time_ms=0,
            )
            for name, ahead_ms in (("broker-a", clock_ahead_ms), ("broker-b", 0))
        )
    }


def history(engine: Engine, rule_id: str) -> list[tuple[int, str]]:
    """Return kind and the minute that showed it of all that happened to the one incident of a rule; mutes left out."""
    (incident,) = (one for one in newest_incidents(engine) if one.subject.rule_id == rule_id)
    with reading(engine) as session:
        events = incidents.events_of(session, incident.incident_id)
    mutes = {EventKind.MUTED, EventKind.UNMUTED}
    return [((event.at - START) // MINUTE - 1, event.kind.value) for event in events if event.kind not in mutes]


def test_what_happens_is_kept_with_the_minute_that_showed_it(engine: Engine) -> None:
    judge(engine, facts(0, group("a", 20_000)))
    judge(engine, facts(1, group("a", 20_000, old=True)))
    judge(engine, facts(2, cluster_unseen=True))
    judge(engine, facts(3, group("a", 20_000)))
    judge(engine, facts(4, group("a", 0)))
    judge(engine, facts(5, group("a", 0)))
    assert history(engine, "consumer_offline") == [
        (0, "opened"),
        (1, "worse"),
        (2, "unknown"),
        (3, "visible"),  # no better: one look does not show since when it is offline
        (5, "resolved"),
    ]


def test_what_happened_reads_in_the_language_of_whoever_asks_with_the_figures_of_then(engine: Engine) -> None:
    judge(engine, facts(0, group("a", 20_000)))
    judge(engine, facts(1, group("a", 30_000, old=True)))
    judge(engine, facts(2, cluster_unseen=True))
    for minute in (3, 4):
        judge(engine, facts(minute, group("a", 0)))
    known = newest_incidents(engine)
    (offline,) = (one for one in known if one.subject.rule_id == "consumer_offline")
    with reading(engine) as session:
        events = incidents.events_of(session, offline.incident_id)
        others = [event for one in known for event in incidents.events_of(session, one.incident_id)]
    chinese = catalogue(Locale(Language.ZH))
    for event, lag in zip(events, ("20,000", "30,000"), strict=False):
        assert lag in event.text
        assert lag in chinese.read(event.text)
    for event in others:
        assert not english_words(chinese.read(event.text), frozenset({"a", "orders", "demo"})), event


def test_one_look_at_a_clock_tells_nobody_and_leaves_nothing(engine: Engine) -> None:
    """A process that was held up between two looks at clocks would do: clock_skew wants two intervals."""
    report = judge(engine, facts(0, **skewed(60_000)))
    assert ([one.rule.id for one in report.findings], report.opened, report.messages) == (["clock_skew"], (), ())
    assert newest_incidents(engine) == []
    judge(engine, facts(1, **skewed(0)))
    with reading(engine) as session:
        assert incidents.open_incidents(session, "demo") == []


@pytest.mark.parametrize("pattern", [None, "some*"])
def test_two_looks_at_a_clock_open_it_since_the_first(engine: Engine, pattern: str | None) -> None:
    judge(engine, facts(0, **skewed(60_000)))
    if pattern is not None:  # a judgement of some groups tells nobody of what is pending elsewhere
        assert judge(engine, facts(1, **skewed(60_000)), group_pattern=pattern).messages == ()
    report = judge(engine, facts(1, **skewed(60_000)))
    assert [(one.opened_at, one.seen_count) for one in report.opened] == [(START, 2)]
    assert [message.view.rule_id for message in report.messages] == ["clock_skew"]
    assert history(engine, "clock_skew") == [(1, "opened")]
