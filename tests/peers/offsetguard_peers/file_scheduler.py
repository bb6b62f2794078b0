"""Which test file a worker of pytest-xdist gets next: one that needs what it has running already; the quick ones last.

A JVM with Spark and two RocketMQ clusters take half a minute each to start. So a worker stays with the kind of its last
file as long as there is one, and the files that need none of that fill what is left, so that both workers end together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler.loadfile import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdist.workermanage import WorkerController

KINDS = ("tests/live/", "tests/spark/")  # heavy files by what they start; of each kind, those named below come first
LONGEST = (
    "tests/live/test_end_to_end.py",
    "tests/live/incidents/test_incidents.py",
    "tests/live/test_demo.py",
    "tests/spark/test_engines.py",
    "tests/spark/test_publish_killed.py",
    "tests/spark/test_publish.py",
    "tests/live/test_detail_sources.py",
    "tests/live/test_source_matrix.py",
)


class FileScheduler(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """`--dist loadfile` with another order."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        last = {worker: kind_of(next(reversed(files), "")) for worker, files in self.assigned_work.items()}
        free = (kind for kind in KINDS if kind not in last.values())
        stays_with = last.get(node) or next(free, None)
        self.workqueue.move_to_end(next_file(self.workqueue, stays_with), last=False)
        super()._assign_work_unit(node)


def kind_of(file: str) -> str | None:
    """Return which of KINDS a file belongs to; None for a quick one."""
    return next((kind for kind in KINDS if file.startswith(kind)), None)


def next_file(files: Iterable[str], stays_with: str | None) -> str:
    """Return the file for a worker that has a kind running: heavy before quick, its own kind first, the longest first.

    Among equals the first of `files`, which come in random order.
    """

    def position(file: str) -> tuple[bool, bool, int]:
        kind = kind_of(file)
        return kind is None, kind != stays_with, LONGEST.index(file) if file in LONGEST else len(LONGEST)

    return min(files, key=position)
