"""`offsetguard demo`: somebody is warned, and whatever way it ends nothing of it is left running."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.airflow, pytest.mark.slow]


PROGRAM = Path(sys.executable).parent / "offsetguard"


@contextmanager
def _demo(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [str(PROGRAM), "demo", "--folder", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_the_first_warning_arrives_and_nothing_is_left(tmp_path: Path) -> None:
    with _demo(tmp_path / "demo", "--until-first-warning", "--for", "30m") as demo:
        assert demo.stdout is not None
        output = demo.stdout.read()
        assert demo.wait() == 0, output
    assert "password offsetguard" in output, "the login is printed"
    (variables,) = re.findall(r"export (OFFSETGUARD_.*)", output)
    asked = f"export {variables}; {PROGRAM} incidents list --format json"
    incidents = subprocess.run(["/bin/sh", "-c", asked], capture_output=True, text=True, check=False)
    assert incidents.returncode == 0, incidents.stderr
    assert '"cluster": "demo"' in incidents.stdout, "the variables that are printed lead to what it found"
    assert "] demo · " in output.splitlines()[-2], "the warning is printed last, before the end"
    assert _left_over(tmp_path) == []


@pytest.mark.parametrize(("line", "end"), [("starting Airflow", signal.SIGTERM), ("RocketMQ serves", signal.SIGINT)])
def test_it_ends_cleanly_while_it_still_starts(tmp_path: Path, line: str, end: signal.Signals) -> None:
    with _demo(tmp_path / "demo") as demo:
        assert demo.stdout is not None
        while line not in (printed := demo.stdout.readline()):
            assert printed, f"the demo ended before it said {line!r}"
        demo.send_signal(end)
        output = demo.stdout.read()
        assert demo.wait() == 0, output
    assert "Traceback" not in output
    assert _left_over(tmp_path) == []


def test_a_killed_demo_leaves_nothing_either(tmp_path: Path) -> None:
    """No chance to clean up: the kernel and the guard do it."""
    with _demo(tmp_path / "demo") as demo:
        assert demo.stdout is not None
        while "RocketMQ serves" not in (printed := demo.stdout.readline()):
            assert printed, "the demo ended before RocketMQ served"
        demo.kill()
    wait_until(lambda: not _left_over(tmp_path), lambda: f"the end of {_left_over(tmp_path)}")


def test_a_folder_with_other_things_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with _demo(tmp_path) as demo:
        assert demo.wait() == 1
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def _left_over(folder: Path) -> list[str]:
    """Return the command lines of live processes that work in a folder or name it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            works_in = str((process / "cwd").readlink())
        except OSError:  # it ended meanwhile
            continue
        if str(folder) in command or works_in.startswith(str(folder)):
            found.append(f"{process.name} {command}")
    return found
