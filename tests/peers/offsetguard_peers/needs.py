"""What each test needs: its markers, which worker of pytest-xdist owns what is expensive, and what a machine lacks.

The rules stand here once, by folder and by fixture; a file says only that it is `slow`, or what no fixture tells.
"""

import os
import shutil
from collections.abc import Callable
from functools import cache
from typing import NoReturn

import pytest

from offsetguard_peers.alertmanager import alertmanager_path
from offsetguard_peers.databases import postgresql_binaries
from offsetguard_peers.pictures.chromium import NoBrowser, chromium_path
from offsetguard_peers.rocketmq.jvm import java

_CLUSTERS = frozenset({"rocketmq_4", "rocketmq_5"})
# What is started once: tests that share it run in one worker, all others file by file. The first that fits counts, and
# has the most to do.
_GROUPS: tuple[tuple[str, Callable[[str, frozenset[str]], bool]], ...] = (
    ("spark", lambda path, _: path.startswith("tests/spark/")),
    ("clusters", lambda path, fixtures: bool(fixtures & _CLUSTERS) or path.endswith("live/test_end_to_end.py")),
    ("postgres", lambda _, fixtures: "postgresql" in fixtures),
    ("airflow", lambda _, fixtures: "airflow" in fixtures),
)
_MARKERS_OF_FIXTURES = {
    "airflow": ("airflow", "slow"),
    "alertmanager": ("alertmanager", "slow"),
    "object_store": ("slow",),
    "postgresql": ("postgres", "slow"),
}


def say_needs(item: pytest.Item) -> None:
    """Mark a test with what it needs, and name the group of tests that one worker gets."""
    fixtures = frozenset(getattr(item, "fixturenames", ())) | _asked_by_parameter(item)
    if item.get_closest_marker("postgres"):  # asks for the server itself
        fixtures |= {"postgresql"}
    for fixture in fixtures & _MARKERS_OF_FIXTURES.keys():
        for name in _MARKERS_OF_FIXTURES[fixture]:
            item.add_marker(name)
    path = item.path.relative_to(item.config.rootpath).as_posix()
    group = next((name for name, fits in _GROUPS if fits(path, fixtures)), path)
    item.add_marker(pytest.mark.xdist_group(group))


def put_longest_first(items: list[pytest.Item]) -> None:
    """Sort tests so that the long groups begin at once, each on its worker, and files fill what is left of the time."""
    groups = [name for name, _ in _GROUPS]

    def place(item: pytest.Item) -> int:
        marker = item.get_closest_marker("xdist_group")
        return groups.index(marker.args[0]) if marker and marker.args[0] in groups else len(groups)

    items.sort(key=place)


def _asked_by_parameter(item: pytest.Item) -> frozenset[str]:
    """Return fixtures that a test asks for by the name that a parameter gives: `request.getfixturevalue`."""
    parameters = getattr(item, "callspec", None)
    return frozenset(one for one in parameters.params.values() if isinstance(one, str)) if parameters else frozenset()


def refuse_or_skip(item: pytest.Item) -> None:
    """Skip a test whose machine lacks what it needs, with what to do about it; where CI is set, fail."""
    for name, lacks in _LACKS.items():
        if item.get_closest_marker(name) and (reason := lacks()):
            fail_or_skip(reason)


def fail_or_skip(reason: str) -> NoReturn:
    """Skip a test for what the machine lacks; where CI is set, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have everything that tests need: {reason}", pytrace=False)
    pytest.skip(reason)


@cache
def _java() -> str | None:
    return None if shutil.which(java()) else "there is no Java: make install-test (Java 17 or newer)"


@cache
def _browser() -> str | None:
    try:
        chromium_path()
    except NoBrowser as none:
        return str(none)
    return None


@cache
def _postgresql() -> str | None:
    return None if postgresql_binaries() else "PostgreSQL is not installed: apt-get install postgresql"


@cache
def _alertmanager() -> str | None:
    try:
        alertmanager_path()
    except FileNotFoundError as none:
        return str(none)
    return None


_LACKS = {"live": _java, "browser": _browser, "postgres": _postgresql, "alertmanager": _alertmanager}
