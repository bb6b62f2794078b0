"""Each offset move has one cause at most, whatever the order in which moves are read; what is lost is counted once."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.facts.interval import IntervalFacts, OnlineGroupFacts
from offsetguard.judge.evidence.move_causes import LOOPING_MOVES, causes, loops
from offsetguard.judge.evidence.move_figures import lost_of
from offsetguard.model.intervals import Interval
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard_peers.configs import one_team

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
CONFIG = one_team({"demo": {"name_servers": ["10.0.0.1:9876"]}}, team="operations")


@st.composite
def moves(draw: st.DrawFn) -> OffsetMoveFacts:
    first, last = sorted(draw(st.tuples(st.integers(0, 1500), st.integers(0, 1500))), reverse=True)
    return OffsetMoveFacts(
        consumer_group=draw(st.sampled_from(["billing", "news"])),
        client_id=draw(st.sampled_from([None, "10.0.0.9@1", "10.0.0.8@1"])),
        topic="orders",
        broker_name="broker-a",
        queue_id=draw(st.sampled_from([None, 0, 1])),
        requested_offset=draw(st.integers(0, 50)),
        corrected_offset=draw(st.integers(0, 50)),
        move_count=draw(st.integers(1, 9)),
        first_moved_at=INTERVAL.end - timedelta(seconds=first),
        last_moved_at=INTERVAL.end - timedelta(seconds=last),
        origin=draw(st.sampled_from(["event", "log", "snapshot"])),
    )


def facts_of(some: list[OffsetMoveFacts], *, switched: bool = False) -> IntervalFacts:
    changed_at = INTERVAL.end - timedelta(seconds=300) if switched else None
    brokers = (BrokerFacts(broker_name="broker-a", broker_id=0, listed=True, master_changed_at=changed_at),)
    online = (
        OnlineGroupFacts(consumer_group="news", message_model="BROADCASTING", online_client_count=2),
        OnlineGroupFacts(consumer_group="billing", message_model="CLUSTERING", online_client_count=1),
    )
    moves = tuple(some)
    return IntervalFacts("demo", INTERVAL, INTERVAL.end, offset_moves=moves, online_groups=online, brokers=brokers)


@given(st.lists(moves(), max_size=12, unique=True), st.booleans())
def test_a_move_has_one_cause_at_most_and_nothing_is_made_up(some: list[OffsetMoveFacts], switched: bool) -> None:
    told = [move for one in causes(facts_of(some, switched=switched), CONFIG).values() for move in one.moves]
    assert len(told) == len(set(told))
    assert set(told) <= set(some)


@given(st.lists(moves(), max_size=12, unique=True))
def test_causes_do_not_depend_on_the_order_of_the_moves(some: list[OffsetMoveFacts]) -> None:
    forwards, backwards = (causes(facts_of(order), CONFIG) for order in (some, some[::-1]))
    assert forwards.keys() == backwards.keys()
    for pair, one in forwards.items():
        other = backwards[pair]
        for name in ("not_persisted", "overtaken", "moved_back", "beyond_end"):
            assert set(getattr(one, name)) == set(getattr(other, name))


@given(moves())
def test_what_is_left_out_started_anew_or_is_still_open(move: OffsetMoveFacts) -> None:
    told = [one for found in causes(facts_of([move]), CONFIG).values() for one in found.moves]
    starts = move.requested_offset == 0 < move.corrected_offset
    still_open = (
        move.consumer_group == "news"
        and move.origin != "snapshot"
        and INTERVAL.end - move.last_moved_at <= timedelta(seconds=45)
    )
    at_its_pace = move.origin == "snapshot" and move.corrected_offset > move.requested_offset  # nothing shows a jump
    assert told or starts or still_open or at_its_pace


@given(moves(), st.none() | st.integers(0, 20))
def test_few_requests_or_a_snapshots_are_no_loop(move: OffsetMoveFacts, clients: int | None) -> None:
    if loops(move, clients):
        assert move.move_count >= LOOPING_MOVES
        assert move.origin != "snapshot"
        assert move.client_id or move.move_count > 2 * (clients or 1)


@given(st.lists(moves(), min_size=1, max_size=8))
def test_what_is_lost_in_one_queue_lies_between_the_longest_move_and_all_of_them(some: list[OffsetMoveFacts]) -> None:
    # what a log says more than once at once was asked on several queues, though the snapshots name only one of them
    in_one = [move for move in some if move.queue_id == 0 and not (move.origin == "log" and move.move_count > 1)]
    distances = [max(0, move.corrected_offset - move.requested_offset) for move in in_one]
    assert max(distances, default=0) <= lost_of(in_one) <= sum(distances)
