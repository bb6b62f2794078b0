"""How Java processes are started: small, quick to be ready, each with its own home folder.

RocketMQ's jars are those of `spark/offsetguard_spark/jar_sets`. Our programs (`java/*.java`, `java_grpc/*.java`) are
compiled once per version and kept in the cache; the compiler is Eclipse's, one jar from the jar set `ecj`: a machine
with a Java *runtime* only is enough. The logging configuration of 4.x is in no jar, and a broker without it does not
start: files and line layouts are those of the official distribution (broker.log, lock.log, ...), without rolling.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
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


THREAD_LAYOUT = "%d{yyy-MM-dd HH:mm:ss,GMT+8} %p %t - %m%n"
STATS_LAYOUT = "%d{yyy-MM-dd HH:mm:ss,GMT+8} %p - %m%n"
BARE_LAYOUT = "%d{yyy-MM-dd HH:mm:ss,GMT+8} - %m%n"

# logger -> file name and layout
BROKER_LOGGERS = {
    "RocketmqBroker": ("broker", THREAD_LAYOUT),
    "RocketmqRebalanceLock": ("lock", THREAD_LAYOUT),
    "RocketmqFilter": ("filter", THREAD_LAYOUT),
    "RocketmqStats": ("stats", STATS_LAYOUT),
    "RocketmqStore": ("store", THREAD_LAYOUT),
    "RocketmqStoreError": ("storeerror", THREAD_LAYOUT),
    "RocketmqRemoting": ("remoting", THREAD_LAYOUT),
    "RocketmqTransaction": ("transaction", THREAD_LAYOUT),
    "RocketmqWaterMark": ("watermark", BARE_LAYOUT),
    "RocketmqProtection": ("protection", BARE_LAYOUT),
}


def write_logback_files(conf_folder: Path) -> None:
    """Write logback_broker.xml, logback_namesrv.xml and logback_tools.xml."""
    conf_folder.mkdir(parents=True, exist_ok=True)
    (conf_folder / "logback_broker.xml").write_text(_document("broker_default", BROKER_LOGGERS))
    (conf_folder / "logback_namesrv.xml").write_text(_document("namesrv", {}))
    (conf_folder / "logback_tools.xml").write_text(_document("tools", {}))


def _document(root_file: str, loggers: dict[str, tuple[str, str]]) -> str:
    parts = [_appender(root_file, THREAD_LAYOUT)]
    for logger, (file, layout) in loggers.items():
        parts.append(_appender(file, layout))
        parts.append(
            f'<logger name="{logger}" additivity="false"><level value="INFO"/><appender-ref ref="{file}"/></logger>'
        )
    root = f'<root><level value="INFO"/><appender-ref ref="{root_file}"/></root>'
    return f"<configuration>{''.join(parts)}{root}</configuration>\n"


def _appender(file: str, layout: str) -> str:
    return (
        f'<appender name="{file}" class="ch.qos.logback.core.FileAppender">'
        f"<file>${{user.home}}/logs/rocketmqlogs/{file}.log</file>"
        f"<encoder><pattern>{layout}</pattern></encoder></appender>"
    )


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
