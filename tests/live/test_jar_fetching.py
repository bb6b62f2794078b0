"""Jars are fetched once, checked, and every way to fail says which set, which jar, and what to do."""

import gzip
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from offsetguard_peers.http_server import HttpPeer, Quiet
from offsetguard_spark.jars import MOST_BYTES, jar_paths, read_set

pytestmark = [pytest.mark.live, pytest.mark.slow]

SMALL_SET = "ecj"


def fetch(cache: Path, set_name: str = SMALL_SET, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "offsetguard_spark.jars", set_name],
        env={**os.environ, "OFFSETGUARD_CACHE": str(cache), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


class _Handler(Quiet, BaseHTTPRequestHandler):
    jar = b""
    encoding = ""

    def do_GET(self) -> None:
        body = self.jar if self.path.endswith(".jar") else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        if self.encoding:  # although nobody asked for it
            self.send_header("Content-Encoding", self.encoding)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def repository(content: bytes, encoding: str = "") -> Iterator[str]:
    """Serve a Maven repository in which every jar has this content."""
    with HttpPeer(type("Handler", (_Handler,), {"jar": content, "encoding": encoding})) as server:
        yield f"{server.url}maven2"


def test_a_second_run_needs_no_repository_and_a_damaged_jar_is_fetched_again(tmp_path: Path) -> None:
    (jar,) = read_set(SMALL_SET)
    right = jar_paths(SMALL_SET)[0].read_bytes()
    with repository(right) as mirror:
        first = fetch(tmp_path, OFFSETGUARD_MAVEN_REPOSITORY=mirror)
        assert first.returncode == 0, first.stderr
        kept = tmp_path / "jars" / SMALL_SET / jar.file_name
        kept.write_bytes(b"damaged")
        assert fetch(tmp_path, OFFSETGUARD_MAVEN_REPOSITORY=mirror).returncode == 0
        assert kept.read_bytes() == right
    assert fetch(tmp_path, OFFSETGUARD_MAVEN_REPOSITORY=mirror).returncode == 0


def test_a_jar_with_a_wrong_sum_is_named_and_not_kept(tmp_path: Path) -> None:
    (jar,) = read_set(SMALL_SET)
    with repository(b"something else") as mirror:
        result = fetch(tmp_path, OFFSETGUARD_MAVEN_REPOSITORY=mirror)
    assert result.returncode == 1
    assert f"{jar.coordinate} has {hashlib.sha256(b'something else').hexdigest()} instead of" in result.stderr
    assert [path.name for path in (tmp_path / "jars" / SMALL_SET).iterdir()] == []


def test_no_answer_is_unpacked_and_one_without_end_is_left(tmp_path: Path) -> None:
    """A few kB of a mirror that is not ours any more must not become GB."""
    packed = gzip.compress(bytes(64 << 20))
    with repository(packed, "gzip") as mirror:
        result = fetch(tmp_path, OFFSETGUARD_MAVEN_REPOSITORY=mirror)
    assert f"has {hashlib.sha256(packed).hexdigest()} instead of" in result.stderr
    with repository(bytes(MOST_BYTES + 1)) as mirror:
        result = fetch(tmp_path, OFFSETGUARD_MAVEN_REPOSITORY=mirror)
    assert (result.returncode, "it is longer than 256 MiB" in result.stderr) == (1, True)
    assert [path.name for path in (tmp_path / "jars" / SMALL_SET).iterdir()] == []


@pytest.mark.parametrize(
    ("reason", "mirror"), [("Connection refused", "http://127.0.0.1:1/maven2"), ("HTTP 404 Not Found", None)]
)
def test_what_could_not_be_fetched_is_said_in_one_error(tmp_path: Path, reason: str, mirror: str | None) -> None:
    with repository(b"") as empty:
        result = fetch(tmp_path, OFFSETGUARD_MAVEN_REPOSITORY=mirror or empty)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: jar set {SMALL_SET}: 1 of 1 jars could not be fetched, the first is ")
    assert reason in result.stderr


def test_an_unknown_set_is_refused_with_the_known_names(tmp_path: Path) -> None:
    result = fetch(tmp_path, "iceberk")
    assert result.returncode == 1
    assert result.stderr.startswith("error: jar set 'iceberk' is unknown: choose from ecj, iceberg,")
