"""The embedded world: real brokers with groups in trouble, Airflow, and the warnings that come of it.

    offsetguard demo [--rocketmq 5.5.0] [--for 5m] [--until-first-warning]

Everything lies in `.demo` of the checkout and is kept until the next demo; no process outlives it. It prints each
warning as it arrives, and until the first one what Airflow is doing.
"""

import argparse
import fcntl
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.views import DATA_DOCS_PATH, FLEET_PATH, URL_PREFIX
from offsetguard_peers.airflow.api import FINISHED
from offsetguard_peers.airflow.standalone import AirflowFailed
from offsetguard_peers.demo import groups
from offsetguard_peers.demo.groups import demo_config
from offsetguard_peers.demo.world import World
from offsetguard_peers.processes import PeerNotStarted, all_free
from offsetguard_peers.rocketmq.cluster import VERSIONS, RocketMQCluster

Tell = Callable[[str], None]


REPOSITORY = Path(__file__).resolve().parents[4]
PASSWORD = "offsetguard"  # of a server that listens on 127.0.0.1 while the demo runs
USUAL_PORT = 8080
GROWS_AFTER_S = 200.0
_UNIT_S = {"s": 1, "m": 60, "h": 3600}


class DemoEnded(BaseException):
    """Somebody asked for the end: Ctrl-C, SIGTERM, a closed terminal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo until it is ended; returns the exit code.

    0: ended as asked; 1: `--until-first-warning`, and none came within `--for`; 2: something did not start.
    """
    options = _parser().parse_args(arguments)
    tell = elapsed_clock()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with _own_folder(options.folder.resolve()) as folder:
            return _run(folder, options, tell)
    except DemoEnded:
        return 0
    except (AirflowFailed, PeerNotStarted, OffsetGuardError, RuntimeError, TimeoutError) as error:
        tell(f"error: {error}")
        return 2
    finally:
        tell("ended; nothing is left running")


def _run(folder: Path, options: argparse.Namespace, tell: Tell) -> int:
    tell(f"starting Airflow, SMTP and Slack, and beside them RocketMQ {options.rocketmq} (name server, master, slave)")
    port = USUAL_PORT if all_free([USUAL_PORT]) else None
    world = World(folder, airflow_port=port, password=PASSWORD, whole_airflow=True)
    cluster = RocketMQCluster(options.rocketmq, slaves=1, folder=folder / "rocketmq")
    with world, _airflow_beside(world) as airflow_started, cluster:
        tell("RocketMQ serves")
        groups.stage_trouble(cluster, tell)
        with groups.living_groups(cluster):
            tell("three healthy groups consume, and an orderly one whose lock interval is too long")
            airflow_started.result()
            tell("Airflow is healthy")
            world.write_config(demo_config({"demo": {"name_servers": [cluster.namesrv]}}))
            world.run_dags()
            _say_where_to_look(world, cluster, tell)
            return _watch(world, cluster, options, tell)


def _watch(world: World, cluster: RocketMQCluster, options: argparse.Namespace, tell: Tell) -> int:
    feed = WarningFeed(world, tell)
    began_at = time.monotonic()
    is_grown = False
    while options.seconds is None or time.monotonic() < began_at + options.seconds:
        feed.poll()
        if not is_grown and time.monotonic() > began_at + GROWS_AFTER_S:
            groups.grow(cluster, tell)
            is_grown = True
        if feed.count and options.until_first_warning:
            return 0
        if not feed.count:
            feed.poll_tasks()
        time.sleep(1)
    return 1 if options.until_first_warning else 0


def _say_where_to_look(world: World, cluster: RocketMQCluster, tell: Tell) -> None:
    program = Path(sys.executable).parent / "offsetguard"
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in world.workspace.variables.items() if value)
    tell(
        f"""everything runs; the first warnings come within about a minute
         Fleet       {world.airflow.base_url}{URL_PREFIX}{FLEET_PATH}/  (begin here)
         login       user {world.airflow.username}, password {world.airflow.password}
         Airflow     {world.airflow.base_url}  (Fleet in its menu leads to all pages)
         Data Docs   {world.airflow.base_url}{URL_PREFIX}{DATA_DOCS_PATH}/
         mails       {world.inbox.url}  (files: {world.mail_folder})
         Slack       {world.slack.url}
         robots      {world.robots.url}  (DingTalk, WeCom, Feishu)
         try also    {program} check --namesrv {cluster.namesrv}
         in another  export {variables}
         terminal    {program} incidents list
         Ctrl-C ends it"""
    )


@contextmanager
def _airflow_beside(world: World) -> Iterator[Future[None]]:
    """Start Airflow in another thread, since brokers start at the same time; stop it in any case."""
    with ThreadPoolExecutor(1, "demo-airflow") as starter:
        starting = starter.submit(world.start)
        try:
            yield starting
        finally:
            world.airflow.stop()


@contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """Empty the demo's folder and hold it; a second demo in it ends at once."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / "demo.lock"
    if any(folder.iterdir()) and not marker.exists():
        sys.exit(f"error: {folder} is not empty and not a folder of the demo; choose another with --folder")
    with marker.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"error: a demo runs in {folder} already; end it, or choose another folder with --folder")
        for entry in folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry != marker:
                entry.unlink()
        yield folder


def _end(_number: int, _frame: object) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # cleaning up is not interrupted
    # The exception may hit an object in the middle of its construction, whose destructor would then complain.
    sys.unraisablehook = lambda _: None
    print("ending, this takes a few seconds", flush=True)
    raise DemoEnded


def elapsed_clock() -> Tell:
    """Return a function that prints a line behind the time since now."""
    began_at = time.monotonic()

    def tell(line: str) -> None:
        seconds = int(time.monotonic() - began_at)
        print(f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} {line}", flush=True)

    return tell


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="offsetguard demo",
        description=__doc__.partition("\n")[0],
        epilog="Examples:\n  offsetguard demo\n  offsetguard demo --until-first-warning --for 30m",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rocketmq", choices=VERSIONS, default=VERSIONS[0], help="version of the brokers")
    parser.add_argument("--for", dest="seconds", type=_seconds, metavar="5m", help="end by itself after this time")
    parser.add_argument("--until-first-warning", action="store_true", help="end as soon as somebody was told")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".demo", help="where all files go")
    return parser


def _seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)([smh])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write e.g. 90s, 5m or 1h")
    return int(match[1]) * _UNIT_S[match[2]]


class WarningFeed:
    """Polled by the demo; `count` is the number of messages that people have received so far."""

    def __init__(self, world: World, tell: Callable[[str], None]) -> None:
        self._world = world
        self._tell = tell
        self._mail_count = 0
        self._slack_count = 0
        self._task_states: dict[tuple[str, str, int], str | None] = {}

    @property
    def count(self) -> int:
        """Mails and Slack messages."""
        return self._mail_count + self._slack_count

    def poll(self) -> None:
        """Tell what is new since the last call."""
        mails, posted = self._world.smtp.mails, self._world.slack.messages
        for mail in mails[self._mail_count :]:
            self._tell(f"mail to {', '.join(mail.recipients)}: {_one_line(str(mail.message['Subject']))}")
        for message in posted[self._slack_count :]:
            self._tell(f"Slack #{message.channel.name}: {_one_line(message.text)}")
        self._mail_count, self._slack_count = len(mails), len(posted)

    def poll_tasks(self) -> None:
        """Tell which tasks of the newest runs began and ended."""
        api = self._world.api
        for run in api.runs("collect_and_judge")[:2]:
            for task in api.tasks("collect_and_judge", run["dag_run_id"]):
                key = (run["dag_run_id"], task["task_id"], task["map_index"])
                state = task["state"]
                if state != self._task_states.get(key) and state in ("running", *FINISHED):
                    moment = str(run["run_after"])[11:16]
                    self._tell(f"  Airflow, interval {moment}: {task['task_id'].rpartition('.')[2]} {state}")
                self._task_states[key] = state


def _one_line(text: str) -> str:
    return " ".join(text.split())[:160]
