"""A disk of its own, of 1 MiB, that can be filled or made read-only: as root no mode of a file stands in the way."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from offsetguard_peers.needs import fail_or_skip

SIZE_BYTES = 1024 * 1024
_AT_ONCE = b"x" * 4096


@dataclass(frozen=True)
class TinyDisk:
    """A tmpfs, mounted at a folder."""

    folder: Path

    def fill(self, *, but_for_bytes: int = 0) -> None:
        """Leave so much room, none by default."""
        with (self.folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.tell() < SIZE_BYTES - but_for_bytes:
                filler.write(_AT_ONCE)

    def make_read_only(self) -> None:
        """Mount it again, for reading only."""
        subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)

    def files(self) -> list[str]:
        """Return what is there beside what fills it, by path."""
        found = (path for path in self.folder.rglob("*") if path.is_file() and path.name != "filler")
        return sorted(str(path.relative_to(self.folder)) for path in found)


@contextmanager
def tiny_disk(folder: Path) -> Iterator[TinyDisk]:
    """Mount one at a folder, which is made; skip the test where this user may not mount."""
    folder.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode:
        fail_or_skip(
            f"this user may mount no tmpfs ({mounting.stderr.strip()}): run the tests as root, or in a container"
        )
    try:
        yield TinyDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


TAKES_NOTHING: dict[str, tuple[Callable[[TinyDisk], None], str]] = {
    "full": (TinyDisk.fill, "No space left on device; 0 bytes are free there: make room on the disk"),
    "read-only": (
        TinyDisk.make_read_only,
        "Read-only file system; its disk is mounted read-only: mount it for writing",
    ),
}
"""How a disk comes to take nothing more, and what is said of it then."""
