"""Which test file a worker of pytest-xdist gets next: one that needs what it has running already; the quick ones last.

A JVM with Spark and two RocketMQ clusters take half a minute each to start. So a worker stays with the kind of its last
file as long as there is one, and the files that need none of that fill what is left, so that all workers end together.
What starts clusters of its own waits much (for locks to expire, for the next minute), so it is a kind by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler.loadfile import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdist.workermanage import WorkerController

SHARED_CLUSTERS, SPARK, OWN_PEERS = KINDS = ("shared clusters", "spark", "own peers")  # heavy files by what they start
WITH_OWN_PEERS = (
    "tests/live/incidents/",
    "tests/live/test_demo.py",
    "tests/live/test_jar_fetching.py",
    "tests/live/test_lite_topics.py",
    "tests/live/test_log_rotation.py",
    "tests/live/test_pop_groups.py",
    "tests/live/test_pop_on_5_3.py",
    "tests/live/test_source_matrix.py",
    "tests/live/test_state_files.py",
)
LONGEST = (  # of each kind these come first
    "tests/live/test_end_to_end.py",
    "tests/live/incidents/test_incidents.py",
    "tests/spark/test_engines.py",
    "tests/live/test_demo.py",
    "tests/live/test_source_matrix.py",
    "tests/live/test_peers.py",
    "tests/spark/test_publish_killed.py",
    "tests/spark/test_publish.py",
    "tests/live/test_detail_sources.py",
    "tests/live/test_state_files.py",
    "tests/spark/test_recompute.py",
    "tests/spark/test_ingest.py",
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
    if file.startswith(WITH_OWN_PEERS):
        return OWN_PEERS
    return {"tests/live": SHARED_CLUSTERS, "tests/spark": SPARK}.get("/".join(file.split("/")[:2]))


def next_file(files: Iterable[str], stays_with: str | None) -> str:
    """Return the file for a worker that has a kind running: heavy before quick, its own kind first, the longest first.

    Among equals the first of `files`, which come in random order.
    """

    def position(file: str) -> tuple[bool, bool, int]:
        kind = kind_of(file)
        return kind is None, kind != stays_with, LONGEST.index(file) if file in LONGEST else len(LONGEST)

    return min(files, key=position)
