"""What a page costs the API server, with 30 days of minutes of 5,000 groups and 200,000 queues behind it.

Pages are asked as the API server asks them (HTML is rendered), each time about another group, as the first one after
a publication; the clock says 23:59. What lies in the workspace says `pages_workspace.py`.

    .venv/bin/python benchmarks/pages.py                              the aim: 3 GB for a while
    .venv/bin/python benchmarks/pages.py --days 2 --rounds 3          a try, no aim

CPU is that of all threads. Exit code 1: an aim (p95 of 300 ms, of 1 s for 30 days; + 200 MiB) was missed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import Request
from fastapi.responses import Response
from sqlalchemy import update

from offsetguard.config.workspace import Workspace
from offsetguard.facts.changes import record_changes
from offsetguard.lake.reading import FactReader
from offsetguard.store import changes, incidents
from offsetguard.store.database import reading, writing
from offsetguard.store.models import PublishedIntervalRow
from offsetguard.views.changes import AskedChanges
from offsetguard.views.course import Span
from offsetguard.views.fleet import Wanted
from offsetguard.views.group import AskedGroup
from offsetguard.views.incidents import WantedIncidents
from offsetguard.views.queues import AskedPicture, AskedQueues
from offsetguard.views.search import AskedSearch
from offsetguard.views.silences import AskedSilences
from offsetguard.views.topic import AskedTopic
from offsetguard_airflow.page.changes import show_changes
from offsetguard_airflow.page.fleet import show_fleet, show_group, show_heat_map, show_queues, show_topic
from offsetguard_airflow.page.incidents import show_incident, show_list
from offsetguard_airflow.page.search import show_found
from offsetguard_airflow.page.silences import show_silences
from offsetguard_airflow.web.workspace import our_engine

CLUSTER, DAY, HOUR = "main", 1_440, 60
GROUPS, TOPICS, BROKERS, MEMBERS, TROUBLED, QUEUES = 5_000, 1_000, 10, 4, 100, 40
PAST_INCIDENTS = 5_000
CHANGES = 5  # each minute
END = datetime(2026, 11, 14, tzinfo=UTC)
AIM_MS, MONTH_AIM_MS, AIM_MIB = 300.0, 1_000.0, 200
OPERATOR = SimpleAuthManagerUser(username="operator", role="op")
REQUEST = Request({"type": "http", "headers": [], "query_string": b"", "path": "/"})
_PEAK = r"""float(re.search(r'VmHWM:\s+(\d+)', Path('/proc/self/status').read_text())[1]) / 1024"""
# what the API server has without us
_BARE = f"import airflow.api_fastapi.core_api.security, re; from pathlib import Path; print({_PEAK})"


def main() -> int:
    """Write the tables in another process, ask for the pages in one whose clock is theirs, print the figures."""
    parsed = _parser().parse_args()
    if parsed.measure:
        return _measured(parsed.rounds)
    from offsetguard_peers.host_clock import HostClock  # noqa: PLC0415 whose memory would be counted as the pages'

    with tempfile.TemporaryDirectory(prefix="pages_", dir=parsed.folder) as folder:
        writer = [sys.executable, str(Path(__file__).parent / "pages_workspace.py"), folder, str(parsed.days)]
        subprocess.run(writer, check=True)
        os.environ |= {"OFFSETGUARD_HOME": folder, "OFFSETGUARD_CONFIG": f"{folder}/offsetguard.yml"}
        os.environ |= {"OFFSETGUARD_DATABASE_URL": f"sqlite:///{folder}/offsetguard.db"}
        clock = HostClock(END - timedelta(minutes=1) - datetime.now(UTC))
        again = [sys.executable, __file__, "--measure", "--rounds", str(parsed.rounds)]
        return subprocess.run(again, check=False, env=os.environ | clock.environment).returncode


def _pages() -> dict[str, Callable[[int], Response]]:
    """Return by name what asks for a page, about the group or topic of a number."""
    with reading(our_engine()) as session:
        groups = sorted(str(one.consumer_group) for one in incidents.all_open(session))
    topics = topics_written()

    def group(span: Span, number: int) -> Response:
        return show_group(REQUEST, AskedGroup(cluster=CLUSTER, consumer_group=groups[number], span=span))

    def topic(span: Span, number: int) -> Response:
        return show_topic(REQUEST, AskedTopic(cluster=CLUSTER, topic=topic_name(topics[number]), span=span))

    def queues(span: Span, number: int) -> Response:
        return show_queues(REQUEST, AskedQueues(cluster=CLUSTER, consumer_group=groups[number], span=span))

    def heat_map(number: int) -> Response:
        return show_heat_map(AskedPicture(cluster=CLUSTER, consumer_group=groups[number], span=Span.DAY, until=END))

    def changed(span: Span, _: int) -> Response:
        return show_changes(REQUEST, AskedChanges(cluster=CLUSTER, span=span))

    def incident(number: int) -> Response:
        return show_incident(REQUEST, incident_id(number), OPERATOR, may_act=True)

    return {
        "fleet": lambda number: show_fleet(REQUEST, Wanted(page=1 + number % 50)),
        **{f"group, {span}": partial(group, span) for span in (Span.SIX_HOURS, Span.DAY, Span.WEEK, Span.MONTH)},
        **{f"topic, {span}": partial(topic, span) for span in (Span.SIX_HOURS, Span.WEEK, Span.MONTH)},
        **{f"queues, {span}": partial(queues, span) for span in AskedQueues.SPANS[1:]},
        "heat map, 24h": heat_map,
        **{f"changes, {span}": partial(changed, span) for span in (Span.TWO_HOURS, Span.WEEK, Span.MONTH)},
        "changes, a name": lambda number: show_changes(
            REQUEST, AskedChanges(cluster=CLUSTER, span=Span.MONTH, search=f"-{number:04}")
        ),
        "search": lambda number: show_found(REQUEST, AskedSearch(q=f"-{number:03}")),
        "silences": lambda _: show_silences(REQUEST, AskedSilences(rule="*"), OPERATOR, may_act=True),
        "incidents": lambda number: show_list(REQUEST, WantedIncidents(page=1 + number % 50)),
        "incident": incident,
    }


def _measured(rounds: int) -> int:
    missed = False
    print(f"{'':<14}{'p50 ms':>8}{'p95':>8}{'CPU least':>10}{'p50':>8}{'p95':>8}{'bytes':>10}", flush=True)
    for name, ask in _pages().items():
        ask(TROUBLED - 1)  # warms
        walls, cpus, size = [], [], 0
        for number in range(rounds):
            _publish_again(f"{name} {number}")
            began, cpu = time.perf_counter(), time.process_time()
            size = len(ask(number).body)
            walls.append((time.perf_counter() - began) * 1e3)
            cpus.append((time.process_time() - cpu) * 1e3)
        wall, cpu = (quantiles(one, n=20, method="inclusive")[-1] for one in (walls, cpus))
        print(
            f"{name:<14}{median(walls):>8.0f}{wall:>8.0f}{min(cpus):>10.0f}{median(cpus):>8.0f}{cpu:>8.0f}{size:>10,}",
            flush=True,
        )
        missed |= min(wall, cpu) > (MONTH_AIM_MS if name.endswith(Span.MONTH) else AIM_MS)
    bare = float(subprocess.run([sys.executable, "-c", _BARE], check=True, capture_output=True).stdout)
    grown = _peak_mib() - bare
    print(f"memory: + {grown:.0f} MiB at its peak, beside {bare:.0f} of FastAPI with Airflow's rights")
    missed |= grown > AIM_MIB
    for what, ago in (("nothing", 1), ("100 groups", 90)):
        cpu = time.process_time()
        found = _written_down(END - timedelta(minutes=ago))
        print(f"writing down {found} changes ({what} changed): {(time.process_time() - cpu) * 1e3:.0f} ms of CPU")
    print("aims:", "MISSED" if missed else "met", "(the lesser of wall and CPU counts: other work may hold the cores)")
    return int(missed)


def _written_down(start: datetime) -> int:
    """Write down, as the judge does each minute, what an interval shows; returns how many changes."""
    record_changes(FactReader(Workspace.from_environment(), our_engine()), our_engine(), CLUSTER, start)
    with reading(our_engine()) as session:
        return changes.count(session, changes.Asked(CLUSTER, start, start + timedelta(minutes=1)))


def topics_written() -> range:
    """Return topics of the file of a past day that is written: the last part of two."""
    return range(TOPICS // 2, TOPICS)


def incident_id(number: int) -> str:
    return f"i{number}"


def group_name(number: int) -> str:
    return f"consumer-group-{number:05d}"


def topic_name(number: int) -> str:
    return f"topic-{number:05d}-of-orders"


def _publish_again(run_id: str) -> None:
    """Let the newest facts be of another run: what is known of them is read anew."""
    newest = PublishedIntervalRow.interval_start == END - timedelta(minutes=1)
    with writing(our_engine()) as session:
        session.execute(update(PublishedIntervalRow).where(newest).values(run_id=run_id))


def _peak_mib() -> float:
    """Return the most memory that this process ever had."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="What a page costs the API server.")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=20, help="at most 99")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where the tables are written for a while (3 GB)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
