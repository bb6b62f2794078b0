"""Our Java programs (`java/*.java`, `java_grpc/*.java`), compiled once per RocketMQ version and kept in the cache.

The compiler is Eclipse's, one jar from the jar set `ecj`: a machine with a Java *runtime* only is enough.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from offsetguard_peers.jvm import class_path, jars_of, java
from offsetguard_spark.jars import cache_folder, jar_paths

SOURCES = tuple(sorted((Path(__file__).parent / "java").glob("*.java")))
GRPC_SOURCES = tuple(sorted((Path(__file__).parent / "java_grpc").glob("*.java")))


class CompilationFailed(Exception):
    """A program of ours does not compile against this RocketMQ version; the text is the compiler's."""


@functools.cache
def programs_class_path(version: str) -> str:
    """Class path of our programs and RocketMQ's client; compiles what is not in the cache yet (two seconds)."""
    folder = _compiled(version, SOURCES, class_path(version, "client"))
    return class_path(version, "client", extra=(folder,))


@functools.cache
def grpc_programs_class_path() -> str:
    """Class path of our programs that consume over gRPC; it has nothing in common with that of the remoting client."""
    json_reader = [path for path in jars_of("rocketmq-5.5.0") if path.name.startswith("fastjson-")]
    jars = os.pathsep.join(map(str, [*jars_of("rocketmq-client-java-5.2.0"), *json_reader]))
    return os.pathsep.join([str(_compiled("grpc-5.2.0", GRPC_SOURCES, jars)), jars])


def _compiled(name: str, sources: Sequence[Path], libraries: str) -> Path:
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_folder() / "java" / f"{name}-{digest}"
    if folder.exists():  # it got its name when it was complete; the cache may be read-only
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _compile(sources, libraries, folder)
    return folder


def _compile(sources: Sequence[Path], libraries: str, folder: Path) -> None:
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [java(), "-jar", str(jar_paths("ecj")[0]), "-17", "-nowarn", "-cp", libraries]
    command += ["-d", str(unfinished), *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CompilationFailed(result.stdout + result.stderr)
    unfinished.rename(folder)
