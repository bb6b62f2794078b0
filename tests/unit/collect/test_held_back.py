"""Half, delayed and timer messages of masters, and the oldest dead letter: what is asked, and what is said of it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.held_back import delays_ms
from offsetguard.collect.landing import Row
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.tables import BROKER_SNAPSHOTS
from offsetguard_peers.scripted.broker import NEWEST_MS, ScriptedBroker, refuse, when
from offsetguard_peers.scripted.rounds import Play, Rounds, asked, broker_with

HALF, CHECK, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS", "TRANS_CHECK_MAX_TIME_TOPIC"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LEVELS = b"messageDelayLevel=1s 1m 2h\n"
ALL_DELIVERED = {f"scheduleMessageOffset_{level}": "5,5" for level in (1, 2, 3)}
TWO_MINUTES_LATER = "[ 0 days, 0 hours, 2 minutes, 1 seconds ]"  # just after its newest messages became late


def row_of(rounds: Rounds) -> Row:
    (row,) = rounds.rows(BROKER_SNAPSHOTS)
    return row


def told(row: Row, name: str) -> tuple[object, ...]:
    return tuple(row[f"{name}_{figure}"] for figure in ("message_count", "late_count", "late_growth", "late_since"))


def test_a_broker_that_holds_nothing_back_is_asked_nothing_more(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.settings, broker.runtime = LEVELS, ALL_DELIVERED
    rounds = play(broker)
    manifest = rounds.run()
    row = row_of(rounds)
    assert told(row, "half") == (None,) * 4, "no check ever committed"
    assert told(row, "delayed") == (0, 0, None, None)
    assert (row["given_up_max_offset"], row["timer_message_count"], row["timer_behind_ms"]) == (None,) * 3
    assert asked(broker, RequestCode.GET_TOPIC_STATS_INFO) == 1, "that of orders"
    assert RequestCode.SEARCH_OFFSET_BY_TIMESTAMP not in broker.asked
    assert manifest.complete


def test_half_messages_are_counted_from_where_the_check_came_and_compared_with_the_round_before(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.settings, broker.runtime = LEVELS, {**ALL_DELIVERED, "runtime": "[ 0 days, 0 hours, 2 minutes, 0 seconds ]"}
    broker.topics |= {HALF: [(0, 12)], GIVEN_UP: [(0, 1)]}
    broker.committed[HALF, CHECK] = {0: 7}
    broker.found_by_time[HALF, 0] = 3  # all that waits was stored since
    rounds = play(broker)
    rounds.run()
    assert told(row_of(rounds), "half") == (5, 0, None, None)
    assert (row_of(rounds)["given_up_max_offset"], row_of(rounds)["given_up_growth"]) == (1, None)
    began = row_of(rounds)["read_at"]
    broker.topics |= {HALF: [(0, 20)], GIVEN_UP: [(0, 4)]}
    broker.found_by_time[HALF, 0] = 9
    rounds.run()
    second = row_of(rounds)
    assert told(second, "half") == (13, 2, 2, second["read_at"])
    assert (second["given_up_growth"], second["half_growing_since"]) == (3, began)
    broker.runtime["runtime"] = TWO_MINUTES_LATER  # the newest is late: so are all
    searched = asked(broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    manifest = rounds.run()
    assert told(row_of(rounds), "half") == (13, 13, 11, second["read_at"])
    assert (row_of(rounds)["given_up_growth"], row_of(rounds)["half_growing_since"]) == (0, began)
    assert asked(broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP) == searched
    broker.committed[HALF, CHECK] = {0: 19}
    rounds.run()
    assert told(row_of(rounds), "half") == (1, 1, -12, second["read_at"])
    assert row_of(rounds)["half_growing_since"] is None
    assert manifest.complete


def test_no_half_message_is_late_until_a_started_broker_could_check_it_twice(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.settings, broker.runtime = LEVELS, {**ALL_DELIVERED, "runtime": "[ 0 days, 0 hours, 1 minutes, 59 seconds ]"}
    broker.topics |= {HALF: [(0, 12)], GIVEN_UP: [(0, 1)]}
    broker.committed[HALF, CHECK] = {0: 7}
    broker.found_by_time[HALF, 0] = 10  # stored while it still ran, minutes before it was started again
    rounds = play(broker)
    rounds.run()
    assert told(row_of(rounds), "half") == (5, 0, None, None)
    assert RequestCode.SEARCH_OFFSET_BY_TIMESTAMP not in broker.asked
    broker.runtime["runtime"] = "[ 0 days, 0 hours, 2 minutes, 0 seconds ]"
    rounds.run()
    assert told(row_of(rounds), "half")[:3] == (5, 3, 3)


def test_delayed_messages_are_late_by_their_level_also_where_4_x_says_nothing_of_it(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.settings = LEVELS
    broker.topics[SCHEDULE] = [(0, 5), (0, 8), (0, 3)]
    # level 3 has delivered nothing; two minutes and one second after the newest message level 1 has just become late
    broker.runtime = {
        "scheduleMessageOffset_1": "1,5",
        "scheduleMessageOffset_2": "6,8",
        "runtime": "[ 0 days, 0 hours, 2 minutes, 2 seconds ]",
    }
    broker.found_by_time = {(SCHEDULE, 1): 7, (SCHEDULE, 2): 0}
    rounds = play(broker)
    manifest = rounds.run()
    row = row_of(rounds)
    assert told(row, "delayed") == (4 + 2 + 3, 4 + 1 + 0, None, row["read_at"])
    assert asked(broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP) == 2, "not of level 1, whose newest is late"
    assert manifest.complete


def test_what_retention_takes_of_what_waits_is_deleted_and_neither_waits_nor_is_late(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.settings = LEVELS
    broker.topics |= {SCHEDULE: [(0, 5), (0, 8), (4, 6)], HALF: [(0, 12)], GIVEN_UP: [(0, 0)]}
    broker.committed[HALF, CHECK] = {0: 7}
    broker.runtime = {
        "scheduleMessageOffset_1": "1,5",
        "scheduleMessageOffset_2": "6,8",
        "runtime": "[ 0 days, 0 hours, 5 minutes, 0 seconds ]",  # all of these are late
    }
    broker.found_by_time[SCHEDULE, 2] = 4
    rounds = play(broker)
    rounds.run()
    assert deleted(row_of(rounds)) == (0, None, 0, None), "of a level that 4.x says nothing of it is not known"
    broker.topics |= {SCHEDULE: [(5, 5), (7, 8), (4, 6)], HALF: [(10, 12)]}
    rounds.run()
    assert told(row_of(rounds), "delayed")[:2] == (0 + 1 + 2, 0 + 1 + 0), "those of two hours are not due"
    assert told(row_of(rounds), "half")[:2] == (2, 2)
    assert deleted(row_of(rounds)) == (4 + 1, 5, 3, 3)
    broker.runtime["scheduleMessageOffset_1"] = "6,6"  # it delivers again
    broker.committed[HALF, CHECK] = {0: 12}
    rounds.run()
    assert deleted(row_of(rounds)) == (1, -4, 0, -3)


def deleted(row: Row) -> tuple[object, ...]:
    return tuple(row[f"{kind}_deleted_{figure}"] for kind in ("delayed", "half") for figure in ("count", "growth"))


def test_what_is_not_answered_is_a_gap_and_not_nothing(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.settings, broker.runtime = LEVELS, {"scheduleMessageOffset_1": "1,5", "runtime": TWO_MINUTES_LATER}
    broker.topics |= {HALF: [(0, 12)], SCHEDULE: [(0, 5)]}
    broker.committed[HALF, CHECK] = {0: 7}

    null = refuse("java.lang.NullPointerException")
    broker.trouble = when(lambda request: request.ext_fields.get("topic") in (HALF, SCHEDULE), null)
    rounds = play(broker)
    manifest = rounds.run()
    assert told(row_of(rounds), "half") == told(row_of(rounds), "delayed") == (None,) * 4
    for topic in (HALF, SCHEDULE):
        assert any(topic in gap.what for gap in manifest.gaps)


def test_levels_that_cannot_be_read_leave_unknown_what_is_late_and_5_x_tells_of_its_timers(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.settings = b"messageDelayLevel=soon 1m\n"
    broker.topics[SCHEDULE] = [(0, 5)]
    timers = {"timerReadBehind": "61", "timerOffsetBehind": "4", "timerCongestNum": "70"}
    broker.runtime = {"scheduleMessageOffset_1": "1,5", "runtime": TWO_MINUTES_LATER, **timers}
    rounds = play(broker)
    rounds.run()
    row = row_of(rounds)
    assert told(row, "delayed") == (4, None, None, None)
    assert (row["timer_behind_ms"], row["timer_unread_count"], row["timer_message_count"]) == (61_000, 4, 70)


def test_the_oldest_dead_letter_is_asked_for_once_and_again_when_retention_took_it(play: Play) -> None:
    dead = "%DLQ%billing"
    first, second = broker_with(10, 10), broker_with(10, 10, name="broker-b")
    first.topics[dead] = second.topics[dead] = [(2, 2)]
    rounds = play(first, second)
    rounds.run()
    assert rounds.group("billing")["oldest_dead_letter_at"] is None
    assert asked(first, RequestCode.GET_EARLIEST_MSG_STORETIME) == 0
    first.topics[dead] = second.topics[dead] = [(2, 4)]
    first.oldest_ms[dead, 0], second.oldest_ms[dead, 0] = NEWEST_MS, NEWEST_MS - 5_000
    oldest = datetime.fromtimestamp((NEWEST_MS - 5_000) / 1000, UTC)
    for end in (4, 4, 6):  # further ones do not change the oldest
        second.topics[dead] = [(2, end)]
        rounds.run()
        assert rounds.group("billing")["oldest_dead_letter_at"] == oldest
    assert asked(second, RequestCode.GET_EARLIEST_MSG_STORETIME) == 1
    second.topics[dead], second.oldest_ms[dead, 0] = [(4, 6)], NEWEST_MS + 5_000
    rounds.run()
    assert rounds.group("billing")["oldest_dead_letter_at"] == oldest + timedelta(milliseconds=5_000)
    assert asked(second, RequestCode.GET_EARLIEST_MSG_STORETIME) == 2


def test_a_queue_that_does_not_tell_leaves_the_oldest_dead_letter_unknown(play: Play) -> None:
    broker = ScriptedBroker(
        "broker-a", topics={"orders": [(0, 1)], "%DLQ%billing": [(0, 4), (0, 4)]}, groups={"billing"}
    )
    broker.oldest_ms["%DLQ%billing", 0] = NEWEST_MS  # and -1 of the other one
    rounds = play(broker)
    rounds.run()
    assert rounds.group("billing")["oldest_dead_letter_at"] is None
    assert rounds.group("billing")["dead_letter_message_count"] == 8


def test_the_levels_of_a_stock_broker() -> None:
    levels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert [delays_ms(levels)[level - 1] for level in (1, 5, 18)] == [1_000, 60_000, 7_200_000]
    assert len(delays_ms(levels)) == 18


@given(st.text())
def test_any_setting_gives_a_delay_for_each_of_its_levels_or_none_at_all(levels: str) -> None:
    assert len(delays_ms(levels)) in (0, len(levels.split()))
