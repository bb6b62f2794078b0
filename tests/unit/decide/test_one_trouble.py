"""One trouble of a group and topic is one incident and one thread, whatever shows it in a minute: its text grows.

The world: group billing on one queue of orders, to which 60 messages come in a minute; it is judged minute by minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.decide.judge import JudgeReport
from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Explains, Rule, Scope
from offsetguard.model.notification import Matchers, Silence
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.store import silences
from offsetguard.store.database import writing
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.queue_state import QueueState
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import MINUTE, a_group, a_queue, facts, interval, judge, one_sample

QUEUE = MessageQueue("orders", "broker-a", 0)


@dataclass(frozen=True)
class Now:
    """How it stands in a minute."""

    committed: int
    oldest: int  # min offset
    clients: int = 0
    lag_ms: int | None = 0
    booted: bool = False  # its master, half a minute ago
    moved_at_minute: int | None = None  # when the group was sent from 900 to the oldest message

    def offsets(self, minute: int) -> QueueOffsets:
        return QueueOffsets(self.oldest, 4000 + 60 * minute, self.committed)


def world(course: Mapping[int, Now], until: int) -> list[IntervalFacts]:
    """Return the facts of the minutes from 0, or the course's first, on; how it stands from each of its minutes on."""
    stands = {at: course[max(one for one in course if one <= at)] for at in range(min(course), until + 1)}
    ends = [(interval(at).end, now.offsets(at)) for at, now in stands.items()]
    samples = [(at, one_sample(offsets, at)) for at, offsets in ends]
    minutes = range(max(0, min(course)), until + 1)
    histories = {minute: samples[: len(samples) - until + minute] for minute in minutes}
    windows = windows_of(histories, timedelta(minutes=30))
    return [seen(minute, stands[minute], windows[minute]) for minute in minutes]


def seen(minute: int, stands: Now, window: QueueState) -> IntervalFacts:
    """Return the facts of a minute."""
    offsets = stands.offsets(minute)
    group: GroupFacts = a_group(
        "billing",
        offsets.effective_lag,
        queue_count=1,
        lost=offsets.lost,
        lag_ms=stands.lag_ms,
        online_client_count=stands.clients,
        message_model="CLUSTERING" if stands.clients else None,
    )
    boot_at = interval(minute).end - (MINUTE / 2 if stands.booted else timedelta(hours=9))
    broker = BrokerFacts(broker_name="broker-a", broker_id=0, listed=True, answered=True, boot_at=boot_at)
    moves = [_move(stands.moved_at_minute, stands.oldest)] if stands.moved_at_minute is not None else []
    queue = a_queue("billing", QUEUE, offsets, window=window, lag_ms=stands.lag_ms)
    return facts(minute, group, queues=(queue,), brokers=(broker,), offset_moves=tuple(moves))


def _move(minute: int, oldest: int) -> OffsetMoveFacts:
    at = interval(minute).start + MINUTE / 3
    return OffsetMoveFacts(
        consumer_group="billing",
        topic="orders",
        broker_name="broker-a",
        queue_id=0,
        requested_offset=900,
        corrected_offset=oldest,
        move_count=1,
        first_moved_at=at,
        last_moved_at=at,
    )


def live(engine: Engine, course: Mapping[int, Now], until: int) -> list[JudgeReport]:
    return [judge(engine, given) for given in world(course, until)]


def told(reports: list[JudgeReport]) -> list[tuple[int, str, list[str], list[str | None]]]:
    """Return of each message to one receiver its minute, reason, what fires and how what is over ended."""
    found = []
    for minute, report in enumerate(reports):
        for message in report.messages:
            if message.receiver == "one@example.org":
                view: Any = message.view
                firing = [one.summary for one in view.firing]
                found.append((minute, view.reason.value, firing, [one.resolution for one in view.resolved]))
    return found


LOST = Now(committed=900, oldest=2902, lag_ms=1_200_000)
BEHIND = replace(LOST, oldest=0)


@pytest.mark.parametrize(
    ("known_since", "then"),
    [
        pytest.param(0, {}, id="nothing happens"),
        pytest.param(-20, {2: {"booted": True}, 3: {}}, id="its master was started again"),
        pytest.param(0, {1: {"lag_ms": None}, 3: {}}, id="how old the oldest message is is not known"),
        pytest.param(-20, {2: {"booted": True, "lag_ms": None}, 3: {"lag_ms": None}}, id="both"),
    ],
)
@pytest.mark.parametrize(
    ("stands", "summary"),
    [
        pytest.param(LOST, "billing is offline and lost 2,002 messages of orders", id="lost"),
        pytest.param(BEHIND, "billing is offline and 3,100 messages behind on orders", id="behind"),
    ],
)
def test_an_unchanged_trouble_is_one_critical_incident_and_one_message(
    engine: Engine, known_since: int, stands: Now, summary: str, then: dict[int, dict[str, Any]]
) -> None:
    course = {known_since: stands, **{minute: replace(stands, **changed) for minute, changed in then.items()}}
    reports = live(engine, course, until=5)
    (incident,) = newest_incidents(engine)
    assert incident.is_open
    severities = [one.evidence.severity.value for report in reports for one in report.changes.open]
    assert severities == ["critical"] * 6
    assert told(reports) == [(0, "first", [summary], [])]


def test_its_text_grows_in_one_thread_until_it_is_over(engine: Engine) -> None:
    """Its clients go, it is behind, retention overtakes it, its clients come back: they are sent beyond the gap."""
    course = {
        -20: Now(committed=900, oldest=0, lag_ms=1_200_000),
        2: LOST,
        5: Now(committed=4200, oldest=2902, clients=1, moved_at_minute=5),
        6: Now(committed=4300, oldest=2902, clients=1, moved_at_minute=5),
    }
    reports = live(engine, course, until=9)
    offline, lost = (
        "billing is offline and 3,100 messages behind on orders",
        "billing is offline and lost 2,002 messages of orders",
    )
    over = RULES["offset_moved_by_retention"].recovered
    assert told(reports) == [
        (0, "first", [offline], []),
        (2, "worse", [lost], []),
        (8, "all_resolved", [], [over]),
    ]
    assert len({message.view.thread_key for report in reports for message in report.messages}) == 1
    (incident,) = newest_incidents(engine)
    assert (incident.peak_figure, incident.peak) == ("lost", 2002)


def test_a_loss_is_heard_although_what_came_before_it_is_silenced_and_may_be_silenced_itself(engine: Engine) -> None:
    course = {-20: Now(committed=900, oldest=0, lag_ms=1_200_000), 2: LOST}
    with writing(engine) as session:
        matchers = Matchers(rule="consumer_offline")
        now = interval(0).start
        silences.add(session, Silence(matchers, "alice", "a batch", now, now + 60 * MINUTE, now))
    reports = live(engine, course, until=2)
    assert told(reports) == [(2, "first", ["billing is offline and lost 2,002 messages of orders"], [])]
    (incident,) = newest_incidents(engine)
    assert (incident.subject.rule_id, incident.shown_by) == ("consumer_offline", "messages_lost")
    assert Matchers.of(incident.shown_as).rule == "messages_lost"


def test_what_was_set_beyond_the_end_is_no_second_trouble_when_its_windows_are_lost(engine: Engine) -> None:
    """Set at 2, sent back at 4; from 8 on, after a restart of its broker, each queue was seen only since then."""
    within = Now(committed=4000, oldest=0, clients=1)
    again = replace(within, committed=4270)
    asked = replace(_move(4, 4260), requested_offset=9000)
    course = {-20: within, 2: replace(within, committed=9000), 5: again}
    reports = [
        judge(engine, replace(given, offset_moves=(asked,) if given.interval.start > interval(4).start else ()))
        for given in (*world(course, until=7), *world({8: again}, until=14))
    ]
    (incident,) = newest_incidents(engine)
    assert (incident.subject.rule_id, incident.is_open) == ("offset_reset", False)
    assert [(minute, reason) for minute, reason, *_ in told(reports)] == [(2, "first"), (7, "all_resolved")]


def test_an_offset_that_stays_beyond_the_end_when_its_windows_are_lost_is_the_same_incident(engine: Engine) -> None:
    within = Now(committed=4000, oldest=0, clients=1)
    set_beyond = replace(within, committed=9000)
    reports = [
        judge(engine, given)
        for given in (*world({-20: within, 2: set_beyond}, until=4), *world({5: set_beyond}, until=9))
    ]
    (incident,) = newest_incidents(engine)
    assert (incident.subject.rule_id, incident.shown_by) == ("offset_reset", "queue_recreated")
    assert (incident.is_open, incident.evidence.severity.value) == (True, "critical")
    assert [(minute, reason) for minute, reason, *_ in told(reports)] == [(2, "first"), (5, "worse")]
    assert len({message.view.thread_key for report in reports for message in report.messages}) == 1


STAGES = [rule for rule in RULES.values() if rule.stage is not None]


@for_each("rule", STAGES, name_of=lambda rule: rule.id)
def test_each_stage_of_a_trouble_explains_those_before_it_so_that_one_of_them_speaks(rule: Any) -> None:
    """In whatever words the one before is found; with some it may be the one that speaks."""
    before = [
        one
        for one in STAGES
        if one.trouble == rule.trouble and (one.stage.place, one.place) < (rule.stage.place, rule.place)
    ]
    for one in before:
        later = [how for how in rule.explains if _is_of(how, one) and not how.variants]
        earlier = [how for how in one.explains if _is_of(how, rule) and not how.explained_variants]
        explained = _variants(one, [how.explained_variants for how in later])
        explains = _variants(one, [how.variants for how in earlier])
        assert explained | explains == set(one.texts)


def _is_of(how: Explains, rule: Rule) -> bool:
    return how.scope is Scope.TOPIC and rule.id in how.rules


def _variants(rule: Rule, said: list[tuple[str, ...]]) -> set[str]:
    """Return the variants of a rule that are meant: none named means all."""
    return {variant for variants in said for variant in variants or rule.texts}
