"""The one round that a folder of state files is good for: how things stood when the files were written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.rounds import Damage, RecordedRound
from offsetguard.sources.state_files.asker import ORIGIN, StateFolderAsker
from offsetguard.sources.state_files.folder import read_state_folder


def rounds_of_state_folder(folder: Path, cluster: str, started_at: datetime) -> Iterator[RecordedRound]:
    """Yield the round of a folder of state files; it belongs to the interval in which it is collected.

    Offsets carry the time at which the broker wrote them. Raises BundleError when the folder holds no state files.
    """
    brokers = read_state_folder(folder)
    yield RecordedRound(
        cluster=cluster,
        interval=Interval.containing(started_at),
        started_at=started_at,
        asker=StateFolderAsker(cluster, brokers),
        log_sources=(),
        details="suspects",  # there are none: nothing is to be asked for twice
        damages=tuple(
            Damage(str(note.file), note.reason, note.broker_name, note.broker_id, note.body)
            for broker in brokers
            for note in broker.notes
        ),
        origin=ORIGIN,
    )
