"""Lanes take turns where a crash would cost a repeat, and nobody waits long for one who does not come back."""

from __future__ import annotations

import threading

from offsetguard.pipeline.in_doubt import InDoubt


def test_the_second_waits_until_the_first_has_left() -> None:
    in_doubt = InDoubt(turn_s=60.0)
    seen: list[str] = []

    def second() -> None:
        in_doubt.enter()
        seen.append("second")
        in_doubt.leave()

    in_doubt.enter()
    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.2)
    assert seen == [], "the first is still in doubt"
    seen.append("first")
    in_doubt.leave()
    thread.join()
    assert seen == ["first", "second"]


def test_who_stays_too_long_loses_the_turn_and_takes_nothing_away_when_it_leaves_late() -> None:
    in_doubt = InDoubt(turn_s=0.05)
    entered, may_leave = threading.Event(), threading.Event()

    def slow() -> None:
        in_doubt.enter()
        entered.set()
        may_leave.wait()
        in_doubt.leave()

    thread = threading.Thread(target=slow)
    thread.start()
    entered.wait()
    in_doubt.enter()  # returns although the other has not left
    may_leave.set()
    thread.join()
    in_doubt.leave()


def test_leaving_without_a_turn_is_nothing() -> None:
    in_doubt = InDoubt()
    in_doubt.leave()
    in_doubt.enter()
    in_doubt.leave()
