"""Download of listed Maven coordinates with the Ivy that is inside PySpark: needs Java, and no further tool.

Every jar is named by its caller, so no POM is read (`usepoms="false"`: a third of the time). With POMs, types `jar`
and `bundle` would both have to be asked for: with `jar` alone Ivy leaves out OSGi bundles (guava, snakeyaml, ...)
without a word.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

PROGRESS_AFTER_S = 2.0
PROGRESS_EVERY_S = 5.0
DEADLINE_S = 900.0


class IvyFailed(Exception):
    """Java or PySpark is missing, or the repository did not give a jar; the text says what to do."""


def download(coordinates: Sequence[str], folder: Path, *, label: str) -> None:
    """Fetch `group:artifact:version[:classifier]` jars into `folder` as `artifact-version[-classifier].jar`.

    Writes progress lines to stderr when it takes more than two seconds. Raises IvyFailed unless every file is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings, module = folder / "ivysettings.xml", folder / "ivy.xml"
    settings.write_text(_settings_xml(), encoding="utf-8")
    module.write_text(_module_xml(coordinates), encoding="utf-8")
    log = folder / "ivy.log"
    command = [_java(), "-Djava.net.useSystemProxies=true", "-cp", f"{_pyspark_jars()}/*", "org.apache.ivy.Main"]
    command += ["-settings", str(settings), "-ivy", str(module), "-cache", str(folder / "cache")]
    command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).jar"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait(process, folder, len(coordinates), label)
        finally:
            process.kill()
            process.wait()
    absent = [each for each in coordinates if not (folder / _file_name(each)).is_file()]
    if absent:
        msg = (
            f"{len(absent)} of {len(coordinates)} jars could not be fetched, the first is {absent[0]}. Check the "
            f"network, or set OFFSETGUARD_MAVEN_REPOSITORY to a mirror. Ivy said:\n{_complaints(log)}"
        )
        raise IvyFailed(msg)


def _wait(process: subprocess.Popen[bytes], folder: Path, jar_count: int, label: str) -> None:
    started = time.monotonic()
    next_line = PROGRESS_AFTER_S
    while process.poll() is None:
        time.sleep(0.1)
        elapsed = time.monotonic() - started
        if elapsed > DEADLINE_S:
            msg = f"the download did not end within {DEADLINE_S:.0f} s: check the network, then run again"
            raise IvyFailed(msg)
        if elapsed >= next_line:
            next_line += PROGRESS_EVERY_S
            loaded = [path.stat().st_size for path in (folder / "cache").rglob("*.jar")]
            megabytes = sum(loaded) / 1e6
            line = f"{label}: {len(loaded)} of {jar_count} downloaded ({megabytes:.0f} MB) after {elapsed:.0f} s"
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - the progress line of the command line


def _java() -> str:
    """$JAVA_HOME's java, else the one in PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        msg = "no java was found: install a Java 17+ runtime (Debian: apt-get install openjdk-17-jre-headless)"
        raise IvyFailed(msg)
    return found


def _pyspark_jars() -> Path:
    """Find the folder of PySpark's jars without importing it."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        jars = Path(location) / "jars"
        if list(jars.glob("ivy-*.jar")):
            return jars
    msg = "no PySpark with an Ivy jar in this environment: install the project's environment first (make install)"
    raise IvyFailed(msg)


def _settings_xml() -> str:
    mirror = os.environ.get("OFFSETGUARD_MAVEN_REPOSITORY")
    root = f" root={quoteattr(mirror.rstrip('/') + '/')}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="central"/>'
        '<timeout-constraints><timeout-constraint name="limits" connectionTimeout="15000" readTimeout="60000"/>'
        "</timeout-constraints><resolvers>"
        '<ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" '
        f'timeoutConstraint="limits"{root}/>'
        "</resolvers></ivysettings>"
    )


def _module_xml(coordinates: Sequence[str]) -> str:
    classifiers: dict[str, list[str | None]] = {}
    for coordinate in coordinates:
        group, artifact, version, *classifier = coordinate.split(":")
        classifiers.setdefault(f"{group}:{artifact}:{version}", []).append(classifier[0] if classifier else None)
    dependencies = "".join(_dependency_xml(module, wanted) for module, wanted in classifiers.items())
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="offsetguard" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _dependency_xml(module: str, classifiers: Sequence[str | None]) -> str:
    """Declare one module; Ivy wants all classifiers of a module in one element."""
    group, artifact, version = module.split(":")
    named = "".join(
        f'<artifact name={quoteattr(artifact)} type="jar" ext="jar"'
        + (f" m:classifier={quoteattr(classifier)}" if classifier else "")
        + "/>"
        for classifier in classifiers
    )
    return (
        f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} "
        f'transitive="false" conf="default->default">{named}</dependency>'
    )


def _file_name(coordinate: str) -> str:
    return "-".join(coordinate.split(":")[1:]) + ".jar"


def _complaints(log: Path) -> str:
    """Pick the last lines of Ivy's output that carry a reason."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    reasons = [line for line in lines if not set(line) <= set(":- ")]
    return "\n".join(f"  {line}" for line in reasons[-8:])
