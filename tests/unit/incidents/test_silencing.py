"""The first silence that is active and matches mutes, and says whose it is and why, in the reader's language."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offsetguard.catalogue import Sentence
from offsetguard.catalogue.text import Locale
from offsetguard.decide.incidents.muting import silence_mute
from offsetguard.model.notification import MuteReason
from offsetguard.model.silence import Matchers, Silence
from offsetguard_peers.judging.records import OPENED_AT, an_incident

HOUR = timedelta(hours=1)


def silence(number: int, author: str, group: str) -> Silence:
    ends_at = OPENED_AT + HOUR
    return Silence(Matchers(consumer_group=group), author, "move", OPENED_AT, ends_at, OPENED_AT, id=number)


SILENCES = [silence(1, "alice", "ledger"), silence(2, "bob", "bill*"), silence(3, "carol", "*")]


@pytest.mark.parametrize(
    ("group", "after", "by"),
    [
        ("billing", timedelta(0), "2"),
        ("billing", HOUR - timedelta(seconds=1), "2"),
        ("billing", HOUR, None),
        ("billing", -timedelta(seconds=1), None),
        ("news", timedelta(0), "3"),
        (None, timedelta(0), None),
    ],
)
def test_the_first_that_is_active_and_matches_mutes(group: str | None, after: timedelta, by: str | None) -> None:
    mute = silence_mute(an_incident(consumer_group=group), SILENCES, OPENED_AT + after)
    assert (None if mute is None else mute.by) == by


def test_it_says_whose_it_is_in_the_readers_language() -> None:
    mute = silence_mute(an_incident(), SILENCES, OPENED_AT)
    assert mute is not None
    assert (mute.reason, str(mute.text)) == (MuteReason.SILENCE, "silence of bob: move")
    assert isinstance(mute.text, Sentence)
    assert mute.text.read_by(Locale.of("zh", "UTC")).startswith("bob 设置的静默")
