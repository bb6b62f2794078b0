"""Who is asked in detail: the worst first, never more than allowed, everybody in turn, the same on every machine."""

from array import array
from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.broker_reading import PairReading
from offsetguard.collect.detail_choice import (
    Suspect,
    SuspectReason,
    choose,
    choose_clients,
    is_in_share,
    suspect_of,
)
from offsetguard.model.offsets import QueueOffsets
from offsetguard_peers.cases.running import for_each

NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
SEVERITY = list(SuspectReason)

suspects = st.lists(
    st.builds(
        Suspect, st.sampled_from([f"group-{n}" for n in range(40)]), st.sampled_from(SEVERITY), st.integers(0, 9)
    ),
    max_size=60,
)


def pair(
    *queues: tuple[int | None, int | None, int | None], max_at: datetime | None = NOW, plain: bool = True
) -> PairReading:
    """Queues 0, 1, 2, ... with (min, consumer, max); `plain`: known offsets are arrays, as the round makes them."""
    columns: list[array[int] | list[int | None]] = []
    for place in range(3):
        values = [queue[place] for queue in queues]
        known = [value for value in values if value is not None]
        columns.append(array("q", known) if plain and len(known) == len(values) else values)
    low, consumer, high = columns
    return PairReading("billing", "orders", array("i", range(len(queues))), consumer, low, high, NOW, max_at)


@for_each(
    "queues, before, reason",
    [
        ([(0, 10, 10), (0, 5, 6)], [], SuspectReason.WAITING),
        ([(0, 10, 12), (0, 5, 6)], [10, 5], None),  # young: all that waits came since
        ([(0, 9, 12), (0, 5, 6)], [10, 5], SuspectReason.WAITING),
        ([(0, 10, 12), (0, 5, 6)], [10], SuspectReason.WAITING),  # not the same queues: the round before does not tell
        ([(0, 10, 10), (0, 5, 5)], [12, 5], None),  # consumed to the end of a queue that was recreated
        ([(6, 5, 10)], [], SuspectReason.ORDER_BROKEN),
        ([(0, 11, 10)], [], SuspectReason.ORDER_BROKEN),
        ([(7, 7, 6)], [], SuspectReason.ORDER_BROKEN),
        ([(0, None, 0)], [], None),  # never committed on an empty queue
        ([(0, None, 1)], [], SuspectReason.OFFSETS_UNKNOWN),
        ([(None, 5, None)], [], None),  # the queue is gone: there is nothing to ask
        ([(None, 5, None), (0, 0, 9)], [], SuspectReason.WAITING),
        ([(0, 0, 9), (0, 8, 7)], [], SuspectReason.ORDER_BROKEN),
    ],
)
def test_a_pair_is_suspect_for_its_worst_queue(
    queues: list[tuple[int | None, int | None, int | None]], before: list[int], reason: SuspectReason | None
) -> None:
    found = suspect_of(pair(*queues), array("q", before))
    assert (found.reason if found else None) == reason


def test_ends_that_were_not_seen_are_suspect() -> None:
    found = suspect_of(pair((None, 5, None), max_at=None), array("q"))
    assert found == Suspect("billing", SuspectReason.OFFSETS_UNKNOWN, 0)


@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), max_size=4),
)
def test_whole_columns_tell_the_same_as_each_queue(queues: list[tuple[int, int, int]], before: list[int]) -> None:
    quick, slow = (suspect_of(pair(*queues, plain=plain), array("q", before)) for plain in (True, False))
    assert (quick.reason if quick else None) == (slow.reason if slow else None)
    broken = any(QueueOffsets(low, high, consumer).order_violations() for low, consumer, high in queues)
    assert (quick is not None and quick.reason is SuspectReason.ORDER_BROKEN) == broken


@given(suspects, st.integers(0, 30), st.integers(0, 10_000))
def test_never_more_than_allowed_never_twice_and_the_worst_always(
    found: list[Suspect], limit: int, round_number: int
) -> None:
    choice = choose(found, limit, round_number)
    assert len(choice.asked) == len(set(choice.asked)) == min(limit, len(choice.suspects))
    assert set(choice.suspects) == {one.consumer_group for one in found}
    assert choice.left_count == len(choice.suspects) - len(choice.asked)
    always = limit - limit // 4
    waiting = Counter[str]()
    for one in found:
        waiting[one.consumer_group] += one.waiting_count
    worst = sorted(choice.suspects, key=lambda group: (SEVERITY.index(choice.suspects[group]), -waiting[group], group))
    assert set(worst[:always]) <= set(choice.asked)


@given(suspects, st.integers(4, 30), st.integers(0, 10_000))
def test_every_suspect_has_its_turn(found: list[Suspect], limit: int, first_round: int) -> None:
    """As long as the suspects stay the same, a group waits for as many rounds as the others fill, and not for ever."""
    rounds = range(first_round, first_round + 2 * len(found) + 1)
    asked = set().union(*(choose(found, limit, number).asked for number in rounds))
    assert asked == {one.consumer_group for one in found}


def test_what_several_brokers_say_of_a_group_adds_up() -> None:
    waiting = [Suspect("billing", SuspectReason.WAITING, 5), Suspect("billing", SuspectReason.ORDER_BROKEN, 2)]
    assert choose(waiting, 10, 0).suspects == {"billing": SuspectReason.ORDER_BROKEN}
    others = [Suspect("orders", SuspectReason.ORDER_BROKEN, 6), Suspect("audit", SuspectReason.ORDER_BROKEN, 8)]
    assert choose([*waiting, *others], 10, 0).asked == ("audit", "billing", "orders")  # 8, 7 and 6 wait


@given(st.text(), st.integers(1, 100), st.integers(0, 10**9))
def test_every_group_has_one_turn_in_as_many_rounds(group: str, share_rounds: int, first: int) -> None:
    turns = [is_in_share(group, share_rounds, number) for number in range(first, first + share_rounds)]
    assert turns.count(True) == 1


def test_the_share_is_spread_over_the_rounds_and_the_same_everywhere() -> None:
    groups = [f"group-{number}" for number in range(6_000)]
    assert all(sum(is_in_share(group, 60, number) for group in groups) > 60 for number in range(60)), "100 on average"
    assert is_in_share("billing", 60, 6)


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("123456789"), unique=True), max_size=8),
    st.integers(0, 40),
    st.integers(0, 1_000),
)
def test_clients_are_chosen_one_of_each_group_in_turn(clients: dict[str, list[str]], limit: int, number: int) -> None:
    chosen, left = choose_clients(clients, limit, number)
    everybody = {(group, client) for group, ids in clients.items() for client in ids}
    assert len(chosen) == len(set(chosen)) == min(limit, len(everybody))
    assert set(chosen) <= everybody
    assert left == len(everybody) - len(chosen)
    places = Counter(group for group, _ in chosen)
    for group, ids in clients.items():
        assert places[group] >= min(len(ids), max(places.values(), default=0) - 1), "nobody is two clients ahead"


def test_other_clients_of_a_large_group_are_asked_in_the_next_round() -> None:
    clients = {"billing": ["a", "b", "c"]}
    asked = [choose_clients(clients, 1, number)[0] for number in range(4)]
    assert asked == [[("billing", client)] for client in "abca"]
