"""Jars that Spark and the test peers need: fetched once from a Maven repository, checked by sha256, kept in a cache.

A set is a file of `jar_sets/`: one `group:artifact:version[:classifier] sha256` per line, all of them listed (nothing
is resolved here, so that what runs is what was reviewed). `jar_paths("iceberg")` is all that callers need; from a
shell: `python -m offsetguard_spark.jars iceberg`.

OFFSETGUARD_CACHE              where jars are kept (default: `.cache` in the checkout, else `~/.cache/offsetguard`)
OFFSETGUARD_MAVEN_REPOSITORY   a mirror to fetch from instead of Maven Central
"""

import argparse
import fcntl
import hashlib
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from offsetguard.model.errors import OffsetGuardError

SETS_FOLDER = Path(__file__).parent / "jar_sets"
MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"  # as Maven itself has it
PROGRESS_AFTER_S = 2.0
PROGRESS_EVERY_S = 5.0
DEADLINE_S = 900.0
MOST_BYTES = 256 * 1024 * 1024  # the largest of ours has 48 MB
_AT_ONCE = 8


class JarsUnavailable(OffsetGuardError):
    """A set of jars is not complete in the cache and could not be made complete; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a Maven repository and the sha256 that it must have."""

    group: str
    artifact: str
    version: str
    classifier: str | None
    sha256: str

    @property
    def coordinate(self) -> str:
        """`group:artifact:version[:classifier]`."""
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)

    @property
    def file_name(self) -> str:
        """The name in the cache, as Maven itself names the file."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    @property
    def path(self) -> str:
        """Where a Maven repository has it."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"


def set_names() -> list[str]:
    """List the names of the sets that can be fetched, sorted."""
    return sorted(path.name.removesuffix(".txt") for path in SETS_FOLDER.glob("*.txt"))


def read_set(set_name: str) -> list[Jar]:
    """Read a set's jars in the order of its file. Raises JarsUnavailable for an unknown name or a malformed line."""
    if set_name not in set_names():
        msg = f"jar set {set_name!r} is unknown: choose from {', '.join(set_names())}"
        raise JarsUnavailable(msg)
    path = SETS_FOLDER / f"{set_name}.txt"
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return [_parse(path, number, line) for number, line in lines if line.strip() and not line.startswith("#")]


def jar_paths(set_name: str) -> list[Path]:
    """Give the paths of all jars of a set; fetches what is missing or damaged, checks every sha256 on every call."""
    jars = read_set(set_name)
    folder = cache_folder() / "jars" / set_name
    if _missing(jars, folder):  # a cache that is complete may be read-only, as in an image
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one_process(folder):
            if missing := _missing(jars, folder):
                _fetch(set_name, missing, folder)
    return [folder / jar.file_name for jar in jars]


def cache_folder() -> Path:
    """$OFFSETGUARD_CACHE, else `.cache` of the checkout that this file is in, else `~/.cache/offsetguard`."""
    if configured := os.environ.get("OFFSETGUARD_CACHE"):
        return Path(configured).resolve()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".cache"
    return Path.home() / ".cache" / "offsetguard"


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if _sha256(folder / jar.file_name) != jar.sha256]


def _fetch(set_name: str, missing: Sequence[Jar], folder: Path) -> None:
    """Download beside `folder`, check, then move: `folder` never holds a file that was not checked."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix=f".downloading-{set_name}-", dir=folder.parent) as downloads:
        failed = _download(missing, Path(downloads), label=f"jars of {set_name}")
        for jar in missing:
            file = Path(downloads) / jar.file_name
            if jar not in failed and (found := _sha256(file)) == jar.sha256:
                file.replace(folder / jar.file_name)
            elif jar not in failed:
                wrong.append(f"{jar.coordinate} has {found} instead of {jar.sha256}")
    if failed:
        jar, reason = next(iter(failed.items()))
        raise JarsUnavailable(
            f"jar set {set_name}: {len(failed)} of {len(missing)} jars could not be fetched, the first is"
            f" {jar.coordinate}: {reason}. Check the network, or set OFFSETGUARD_MAVEN_REPOSITORY to a mirror"
        )
    if wrong:
        raise JarsUnavailable(
            f"jar set {set_name}: wrong sha256: {'; '.join(wrong)}. Nothing of it was kept. A proxy or mirror may have"
            f" sent something else: run again, or compare with the sums in {SETS_FOLDER / set_name}.txt"
        )


def _download(jars: Sequence[Jar], folder: Path, *, label: str) -> dict[Jar, str]:
    """Write the jars into a folder; returns why one is not there. Tells on stderr how far it is when it takes long."""
    repository = os.environ.get("OFFSETGUARD_MAVEN_REPOSITORY", MAVEN_CENTRAL).rstrip("/")
    certificates = ssl.create_default_context()  # the system's: httpx by itself brings its own
    began, next_line_s = time.monotonic(), PROGRESS_AFTER_S
    with (
        httpx.Client(
            verify=certificates,
            timeout=httpx.Timeout(60, connect=15),
            follow_redirects=True,
            headers={"Accept-Encoding": "identity"},
        ) as client,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        running = {
            jar: pool.submit(_stream, client, f"{repository}/{jar.path}", folder / jar.file_name, began + DEADLINE_S)
            for jar in jars
        }
        while waiting := wait(running.values(), timeout=0.1).not_done:
            elapsed_s = time.monotonic() - began
            if elapsed_s >= next_line_s:
                next_line_s += PROGRESS_EVERY_S
                megabytes = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
                done = f"{len(jars) - len(waiting)} of {len(jars)} downloaded ({megabytes:.0f} MB)"
                print(f"{label}: {done} after {elapsed_s:.0f} s", file=sys.stderr, flush=True)  # noqa: T201
    return {jar: reason for jar, future in running.items() if (reason := future.result())}


def _stream(client: httpx.Client, url: str, file: Path, ends_at: float) -> str | None:
    """Write what is at a URL to a file, or return why that failed; without the URL, which may hold a password.

    As it comes: httpx unpacks each piece of a packed answer into memory, however large that is then.
    """
    try:
        with client.stream("GET", url) as answer, file.open("wb") as written:
            if answer.is_error:
                return f"HTTP {answer.status_code} {answer.reason_phrase}"
            for chunk in answer.iter_raw():
                written.write(chunk)
                if answer.num_bytes_downloaded > MOST_BYTES:
                    return f"it is longer than {MOST_BYTES >> 20} MiB, as no jar of ours is"
                if time.monotonic() > ends_at:
                    return f"the download did not end within {DEADLINE_S:.0f} s"
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return None


def _parse(path: Path, number: int, line: str) -> Jar:
    words = line.split()
    parts = words[0].split(":")
    if len(words) != 2 or len(parts) not in (3, 4) or len(words[1]) != 64:
        msg = f"{path}:{number}: expected `group:artifact:version[:classifier] sha256`, found {line!r}"
        raise JarsUnavailable(msg)
    return Jar(parts[0], parts[1], parts[2], parts[3] if len(parts) > 3 else None, words[1])


def _sha256(path: Path) -> str | None:
    """Hex digest of a file; None when there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _only_one_process(folder: Path) -> Iterator[None]:
    """Let one process fetch: tests, demo and jobs may start together, the second waits and finds the jars there."""
    with folder.with_name(f".lock-{folder.name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: fetch and check the named sets (all by default)."""
    parser = argparse.ArgumentParser(
        prog="python -m offsetguard_spark.jars",
        description="Fetch jars into the cache and check their sha256 sums. A second run downloads nothing.",
        epilog="OFFSETGUARD_CACHE: where to keep them. OFFSETGUARD_MAVEN_REPOSITORY: mirror to fetch from.",
    )
    parser.add_argument("sets", nargs="*", metavar="set", help=f"one of {', '.join(set_names())} (default: all)")
    chosen = parser.parse_args(arguments).sets or set_names()
    for set_name in chosen:
        try:
            paths = jar_paths(set_name)
        except JarsUnavailable as error:
            print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
            return 1
        print(f"{set_name}: {len(paths)} jars in {paths[0].parent}")  # noqa: T201 - a command line prints
    return 0


if __name__ == "__main__":
    sys.exit(main())
