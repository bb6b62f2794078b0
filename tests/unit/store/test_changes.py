"""Changes come back from each database as they were found, whatever names a broker gives, and go with their age."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from offsetguard.catalogue import Sentence
from offsetguard.model.incident import Kind, NamedChange
from offsetguard.model.intervals import Interval
from offsetguard.store import changes, published_intervals
from offsetguard.store.changes import About, Asked
from offsetguard.store.database import reading, writing
from offsetguard.store.published_intervals import PublishedInterval

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WHOLE = Asked("demo", START - MINUTE, START + 9 * MINUTE)
NAMES = st.text(max_size=300)


def joined(count: int, **names: str) -> NamedChange:
    return NamedChange(START, Sentence("changed_joined", came="x@1", count=count), Kind.MEMBERS, **names)


def replaced(engine: Engine, start: datetime, *found: NamedChange, run_id: str | None = None) -> None:
    with writing(engine) as session:
        changes.replace(session, "demo", start, found, run_id)


def listed(engine: Engine, asked: Asked = WHOLE) -> tuple[NamedChange, ...]:
    with reading(engine) as session:
        return changes.listed(session, asked, limit=99)


def test_what_an_interval_showed_is_replaced_as_a_whole_and_what_two_show_stands_once(each_engine: Engine) -> None:
    one, other = joined(1, consumer_group="billing"), joined(1, consumer_group="audit")
    replaced(each_engine, START, one, other)
    replaced(each_engine, START, one)
    assert listed(each_engine) == (one,)
    more = joined(2, consumer_group="billing")  # the same, found later with another count
    replaced(each_engine, START + MINUTE, more, other)
    assert listed(each_engine) == (other, more)
    replaced(each_engine, START)
    assert listed(each_engine) == (other, more), "the next interval shows it, too"


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(group=NAMES, topic=NAMES, search=NAMES)
def test_any_name_is_kept_and_found_by_itself(each_engine: Engine, group: str, topic: str, search: str) -> None:
    change = joined(1, consumer_group=group, topic=topic)
    replaced(each_engine, START, change)
    (kept,) = listed(each_engine)
    shown = [(name or "").replace("\0", "\ufffd")[:255] for name in (group, topic)]
    assert [kept.consumer_group or "", kept.topic or ""] == shown
    assert listed(each_engine, replace(WHOLE, consumer_group=shown[0], topic=shown[1])) == (kept,)
    if "\0" not in search and any(search.lower() in name.lower() for name in shown if name.isascii()):
        assert listed(each_engine, replace(WHOLE, search=search)) == (kept,)


def test_names_are_found_in_any_case_of_any_letters(each_engine: Engine) -> None:
    names = ["Éclair", "ЖУРНАЛ", "straße", "订单"]
    kept = [joined(1, consumer_group=name) for name in names]
    replaced(each_engine, START, *kept)
    for one, part in zip(kept, ("éCL", "журнал", "STRA", "单"), strict=True):
        assert listed(each_engine, replace(WHOLE, search=part)) == (one,)
    assert listed(each_engine, replace(WHOLE, search="zzz")) == ()


def test_what_is_a_pattern_to_a_database_is_a_letter_of_a_name(each_engine: Engine) -> None:
    of_one, of_other = joined(1, consumer_group="a_b%c"), joined(1, consumer_group="axbxc")
    replaced(each_engine, START, of_one, of_other)
    for part in ("a_b", "b%c", "%", "_"):
        assert listed(each_engine, replace(WHOLE, search=part)) == (of_one,)


def test_around_an_incident_stand_its_groups_its_topics_and_its_brokers_and_what_is_nobodys(
    each_engine: Engine,
) -> None:
    ours = [
        joined(1, consumer_group="billing"),
        joined(1, consumer_group="billing", topic="orders"),
        joined(1, topic="orders"),
        joined(1, broker_name="broker-a"),
        NamedChange(START, Sentence("changes_left_out", count=3), None),
    ]
    elsewhere = joined(1, consumer_group="billing", topic="payments")
    others = [joined(1, consumer_group="audit", topic="orders"), joined(1, broker_name="broker-b")]
    replaced(each_engine, START, *ours, elsewhere, *others)
    about, span = About("billing", {"orders"}, {"broker-a"}), (START, START + MINUTE)
    with reading(each_engine) as session:
        found = changes.around(session, "demo", *span, about, limit=99)
        of_group = changes.around(session, "demo", *span, replace(about, in_any_topic=True), limit=99)
        of_nobody = changes.around(session, "demo", *span, About(None, (), ()), limit=99)
    assert set(found) == set(ours)
    assert set(of_group) == {*ours, elsewhere}
    assert of_nobody == (ours[-1],)


def test_it_is_known_which_intervals_are_to_be_gone_through_and_old_ones_go(each_engine: Engine) -> None:
    for number in range(3):
        start = START + number * MINUTE
        row = PublishedInterval("demo", Interval(start), f"run {number}", start + MINUTE, "audited", {}, "{}")
        published_intervals.record(each_engine, row)
    replaced(each_engine, START, joined(1, consumer_group="billing"), run_id="run 0")
    replaced(each_engine, START + MINUTE)
    assert changes.unrecorded(each_engine, "demo", START, limit=9) == [START + 2 * MINUTE, START + MINUTE]
    assert changes.unrecorded(each_engine, "demo", START, limit=1) == [START + 2 * MINUTE]
    with writing(each_engine) as session:
        assert changes.unknown_count(session, "demo", START, START + 9 * MINUTE) == 2
        assert changes.delete_older(session, START) == 0
        assert changes.delete_older(session, START + MINUTE) == 1
    assert listed(each_engine) == ()
    assert START in changes.unrecorded(each_engine, "demo", START, limit=9)
