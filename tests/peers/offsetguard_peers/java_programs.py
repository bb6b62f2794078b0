"""Our Java programs (`java/*.java`), compiled once per RocketMQ version and kept in the cache.

The compiler is Eclipse's, one jar from the jar set `ecj`: a machine with a Java *runtime* only is enough.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

from offsetguard_peers.jvm import class_path, java
from offsetguard_spark.jars import cache_folder, jar_paths

SOURCES = tuple(sorted((Path(__file__).parent / "java").glob("*.java")))


class CompilationFailed(Exception):
    """A program of ours does not compile against this RocketMQ version; the text is the compiler's."""


@functools.cache
def programs_class_path(version: str) -> str:
    """Class path of our programs and RocketMQ's client; compiles what is not in the cache yet (two seconds)."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]
    folder = cache_folder() / "java" / f"{version}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _compile(version, folder)
    return class_path(version, "client", extra=(folder,))


def _compile(version: str, folder: Path) -> None:
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [java(), "-jar", str(jar_paths("ecj")[0]), "-17", "-nowarn", "-cp", class_path(version, "client")]
    command += ["-d", str(unfinished), *map(str, SOURCES)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CompilationFailed(result.stdout + result.stderr)
    unfinished.rename(folder)
