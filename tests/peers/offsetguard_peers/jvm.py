"""How the Java processes of the test peers are started: small, quick to be ready, each with its own home folder."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from offsetguard_spark.jars import cache_folder, jar_paths, read_set

# One compiler tier and one collector thread: on two busy cores a start takes half as long.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")

# RocketMQ 4.x unmaps deleted commit-log files through JDK internals; without these a file is never deleted on JDK 17.
OPEN_INTERNALS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)

# 5.x takes its log files from the first logback file on the class path, in the order broker, namesrv, controller,
# tools, client: a name server that sees the broker's jar would write broker logs.
SERVER_MODULES = ("rocketmq-broker", "rocketmq-namesrv", "rocketmq-controller", "rocketmq-tools", "rocketmq-proxy")
HIDDEN_FROM = {
    "broker": (),
    "namesrv": ("rocketmq-broker", "rocketmq-proxy"),
    "tools": ("rocketmq-broker", "rocketmq-namesrv", "rocketmq-controller", "rocketmq-proxy"),
    "client": SERVER_MODULES,
    "proxy": (),
}


def java() -> str:
    """$JAVA_HOME's java, else the one in PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"


@functools.cache
def class_path(version: str, role: str, extra: tuple[Path, ...] = ()) -> str:
    """Jars of one RocketMQ version for the role `broker`, `namesrv`, `tools`, `client` or `proxy` (5.5.0)."""
    hidden = HIDDEN_FROM[role]
    jars = [path for path in jars_of(f"rocketmq-{version}") if not path.name.startswith(hidden)]
    if role == "proxy":
        jars = [*jars_of(f"rocketmq-proxy-{version}"), *jars]
    return os.pathsep.join(str(path) for path in [*extra, *jars])


def jars_of(set_name: str) -> list[Path]:
    """Jars of a set; a cache that is read-only, as in an image, was filled and checked when it was made."""
    kept = cache_folder() / "jars"
    jars = [kept / set_name / jar.file_name for jar in read_set(set_name)]
    if not os.access(kept, os.W_OK) and all(jar.exists() for jar in jars):
        return jars
    return jar_paths(set_name)


def java_command(
    class_path: str, main_class: str, *, home: Path, memory: Sequence[str], properties: Mapping[str, str]
) -> list[str]:
    """Build a command line up to the main class; logs, offset files and unpacked libraries go below `home`."""
    temporary = home / "tmp"  # a killed 5.x broker leaves the 12 MB library of RocksDB behind
    temporary.mkdir(parents=True, exist_ok=True)
    defined = {"user.home": home, "java.io.tmpdir": temporary, "java.net.preferIPv4Stack": "true", **properties}
    flags = [f"-D{name}={value}" for name, value in defined.items()]
    return [java(), *QUICK_START, *OPEN_INTERNALS, *memory, *flags, "-cp", class_path, main_class]
