"""Silencing: which of the silences that are active mutes an incident. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.catalogue import Sentence
from offsetguard.incidents.muting import Mute, MuteReason

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from offsetguard.incidents.incident import Incident
    from offsetguard.incidents.silence import Silence


def silence_mute(incident: Incident, silences: Iterable[Silence], now: datetime) -> Mute | None:
    """Return the mute of the first silence, in the order given, that is active at `now` and matches."""
    for silence in silences:
        if silence.active_at(now) and silence.matches(incident):
            text = Sentence("muted_by_silence", author=silence.author, comment=silence.comment)
            return Mute(MuteReason.SILENCE, "" if silence.id is None else str(silence.id), text)
    return None
