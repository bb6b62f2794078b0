"""What an incident says of itself: whether it is open, pending or over, and since when that was seen."""

from datetime import timedelta

import pytest

from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard_peers.judging.records import an_incident

OPENED = an_incident().opened_at


@pytest.mark.parametrize(
    ("fields", "is_open", "is_over"),
    [
        ({}, True, False),
        ({"is_pending": True}, False, False),
        ({"resolved_at": OPENED}, False, True),
        ({"unknown_since": OPENED}, True, False),  # what cannot be seen has not ended
    ],
    ids=["shown", "shown too seldom", "ended", "unseen"],
)
def test_an_incident_is_open_from_when_people_may_hear_of_it_to_when_its_end_was_shown(
    fields: dict[str, object], is_open: bool, is_over: bool
) -> None:
    incident = an_incident(**fields)  # type: ignore[arg-type]
    assert (incident.is_open, incident.is_over) == (is_open, is_over)


def test_where_the_round_is_not_known_an_intervals_end_is_when_it_was_seen() -> None:
    read_at = OPENED + timedelta(seconds=7)
    assert an_incident().first_seen_at == an_incident().newest_seen_at == OPENED + INTERVAL_LENGTH
    assert an_incident(first_read_at=read_at).first_seen_at == read_at
    assert an_incident(newest_read_at=read_at).newest_seen_at == read_at
    assert an_incident().ended_at is None
    assert an_incident(resolved_at=OPENED).ended_at == OPENED + INTERVAL_LENGTH
    assert an_incident(resolved_at=OPENED, end_read_at=read_at).ended_at == read_at
