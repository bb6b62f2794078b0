"""The folder of one cluster's Data Docs: a page per interval, and `index.html`, a copy of the newest.

A reader never sees half a page: every file is written beside its place and renamed over it. Pages are their own
history: which invariants a run flagged is read from the head of its page.
"""

from __future__ import annotations

import re
from pathlib import Path

from offsetguard.model.intervals import Interval
from offsetguard_expectations.run_page import RecentRun

KEPT_RUNS = 1440  # one day of minutes: a warning's link still works the next morning
LINKED_RUNS = 60
_PAGE_NAME = re.compile(r"\d{8}T\d{6}Z\.html")
_FLAGGED = re.compile(r'<meta name="offsetguard-flagged" content="([^"]*)">')
_HEAD_LENGTH = 1_000  # characters; the entry stands before anything of variable length


def page_path(cluster_folder: Path, interval: Interval) -> Path:
    """Where the page of an interval lies, or would lie."""
    return cluster_folder / f"{interval.name}.html"


def recent_runs(cluster_folder: Path) -> tuple[RecentRun, ...]:
    """Return the newest runs, oldest first; pages that are not ours are left out."""
    return tuple(run for page in _pages(cluster_folder)[-LINKED_RUNS:] if (run := _read_run(page)))


def publish_page(cluster_folder: Path, interval: Interval, html: str, *, kept_runs: int = KEPT_RUNS) -> Path:
    """Put a run's page in its place, renew `index.html` if it is the newest, and drop the oldest pages.

    Returns the path of `index.html`. The page of a repeated run replaces the former one.
    """
    cluster_folder.mkdir(parents=True, exist_ok=True)
    page = page_path(cluster_folder, interval)
    replace_file(page, html)
    pages = _pages(cluster_folder)
    index = cluster_folder / "index.html"
    if pages[-1] == page or not index.exists():
        replace_file(index, html)
    for old in pages[:-kept_runs]:
        old.unlink(missing_ok=True)
    return index


def _pages(cluster_folder: Path) -> list[Path]:
    if not cluster_folder.is_dir():
        return []
    return sorted(file for file in cluster_folder.iterdir() if _PAGE_NAME.fullmatch(file.name))


def _read_run(page: Path) -> RecentRun | None:
    with page.open(encoding="utf-8", errors="replace") as file:
        flagged = _FLAGGED.search(file.read(_HEAD_LENGTH))
    return RecentRun(Interval.from_name(page.stem), tuple(flagged[1].split())) if flagged else None


def replace_file(file: Path, text: str) -> None:
    """Put a text in a file's place; a reader sees the old or the new one, whole."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
