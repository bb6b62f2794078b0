"""Lanes take turns where a crash would cost a repeat, and nobody waits long for one who does not come back."""

import threading

from offsetguard.deliver.channels.channel import LIMIT_S
from offsetguard.deliver.channels.mail import MailChannel
from offsetguard.deliver.in_doubt import LONGEST_WAIT_S, InDoubt, Slot
from offsetguard.store.outbox import CLAIM_MS
from offsetguard_peers.waiting import wait_until

NEVER_S = 3_600.0


def in_background(slot: Slot, seen: list[str], name: str) -> threading.Thread:
    def take_turn() -> None:
        slot.enter()
        seen.append(name)

    thread = threading.Thread(target=take_turn, daemon=True)
    thread.start()
    return thread


def enter(slot: Slot) -> None:
    """Return once a turn is entered: one that never is fails the test, and does not hang it."""
    seen: list[str] = []
    in_background(slot, seen, "entered")
    wait_until(lambda: seen, "the turn")


def end(thread: threading.Thread) -> None:
    """Return once a thread has ended."""
    wait_until(lambda: not thread.is_alive(), "the turn")


def test_the_second_waits_until_the_first_has_left() -> None:
    in_doubt = InDoubt(slot_s=NEVER_S, longest_wait_s=NEVER_S)
    seen: list[str] = []
    first, second = in_doubt.slot("mail"), in_doubt.slot("slack_webhook")
    first.enter()
    thread = in_background(second, seen, "second")
    thread.join(0.2)
    assert seen == [], "the first is still in doubt"
    seen.append("first")
    first.leave()
    end(thread)
    assert seen == ["first", "second"]


def test_who_stays_too_long_loses_the_turn_and_takes_nothing_away_when_it_leaves_late() -> None:
    in_doubt = InDoubt(slot_s=0.05, short_slot_s=NEVER_S, longest_wait_s=NEVER_S)
    slow, second, third = (in_doubt.slot("mail") for _ in range(3))
    slow.enter()
    enter(second)  # returns although the other has not left
    slow.leave()
    seen: list[str] = []
    thread = in_background(third, seen, "third")
    thread.join(0.2)
    assert seen == [], "it is the second one's turn"
    second.leave()
    end(thread)


def test_of_sixteen_webhooks_that_never_answer_one_alone_holds_up_the_mail_for_one_turn() -> None:
    in_doubt = InDoubt(slot_s=0.2, short_slot_s=NEVER_S, longest_wait_s=NEVER_S)
    seen: list[str] = []
    threads = [in_background(in_doubt.slot("slack_webhook"), seen, "webhook") for _ in range(16)]
    wait_until(lambda: len(seen) == 2, "the first to lose its turn, and the second, which would keep it for ever")
    for _ in range(8):
        mail = in_doubt.slot("mail")
        enter(mail)
        mail.leave()
    assert len(seen) == 2, "webhooks wait for webhooks, mail does not"
    assert sum(thread.is_alive() for thread in threads) == 14


def test_webhooks_that_never_answer_do_not_hold_up_one_that_does() -> None:
    """The first alone may have a whole turn: with one for each, the last would have to wait for an hour."""
    in_doubt = InDoubt(slot_s=0.5, short_slot_s=0.0, longest_wait_s=NEVER_S)
    seen: list[str] = []

    def take_turns() -> None:
        for _ in range(7_200):
            in_doubt.slot("slack_webhook").enter()  # and never leaves
        in_doubt.slot("slack_webhook").enter()
        seen.append("the one that answers")

    threading.Thread(target=take_turns, daemon=True).start()
    wait_until(lambda: seen, "the turn of the one that answers")


def test_nobody_waits_for_longer_than_a_claim_allows() -> None:
    in_doubt = InDoubt(slot_s=NEVER_S, longest_wait_s=0.05)
    enter(in_doubt.slot("mail"))
    enter(in_doubt.slot("mail"))
    for timeout_s in (0.5, 10.0, 30.0, 600.0):
        limit_s = MailChannel("h", timeout_s=timeout_s).limit_s
        assert limit_s <= LIMIT_S
        assert limit_s + LONGEST_WAIT_S < CLAIM_MS / 1000, "nobody else may try the same mail meanwhile"


def test_a_turn_that_is_over_is_not_entered_late() -> None:
    """A call that nobody waits for any more may come so far all the same."""
    in_doubt = InDoubt(slot_s=NEVER_S, longest_wait_s=NEVER_S)
    late = in_doubt.slot("mail")
    late.leave()
    enter(late)
    enter(in_doubt.slot("mail"))
