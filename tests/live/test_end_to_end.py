"""The whole path, once, for real: live brokers of both lines, Airflow's own scheduler, Spark, and people who are told.

One Airflow watches two clusters, RocketMQ 4.9 and 5.x; each has a group that is stopped with a backlog, in a topic of
its own. Its tasks work on a warm Spark server (those of the demo, see test_demo.py, start a Spark of their own). The
story is told once, in `story`; the tests look at what it left.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from offsetguard.store import changes, incidents
from offsetguard.store.database import open_database, reading, writing
from offsetguard_peers.demo.world import World
from offsetguard_peers.help_examples import examples, filled_in
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.pictures.chromium import open_page
from offsetguard_peers.rocketmq.clients import running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.staging import stage_backlog
from offsetguard_peers.slack.workspace import PostedMessage
from offsetguard_peers.smtp.server import ReceivedMail
from offsetguard_peers.waiting import wait_until
from offsetguard_spark.connect_server import ConnectServer

pytestmark = [pytest.mark.live, pytest.mark.airflow]

LINES = ("rocketmq-4.9", "rocketmq-5")
TOPIC, GROUP = "e2e-settlements", "e2e-order-settlement"
BACKLOG = {"rocketmq-4.9": 1_234, "rocketmq-5": 2_345}
OWNER_MAIL, OWNER_CHANNEL = "orders@example.com", "alerts"
PATIENCE_S = 1_200  # a machine that does other things as well


@dataclass(frozen=True)
class Told:
    """What the receivers had got at one moment."""

    mails: tuple[ReceivedMail, ...]
    slack: tuple[PostedMessage, ...]

    def about(self, cluster: str) -> Told:
        """Keep what the owner of our group heard of a cluster; other tests' groups belong to another team."""
        ours = [mail for mail in self.mails if mail.recipients == (OWNER_MAIL,)]
        return Told(
            tuple(mail for mail in ours if cluster in str(mail.message["Subject"])),
            tuple(message for message in self.slack if cluster in message.text),
        )


@dataclass(frozen=True)
class Story:
    """The moments that the tests look at."""

    warned: Told  # after both groups were told of
    rerun: Told  # after a run of that time was done again
    published: tuple[dict[str, Any], dict[str, Any]]  # before and after the rerun
    resolved: Told  # after both groups had caught up


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, spark_server: ConnectServer) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), spark=spark_server) as world:
        world.start()
        yield world


@pytest.fixture(scope="module")
def story(world: World, rocketmq_4: RocketMQCluster, rocketmq_5: RocketMQCluster) -> Story:
    clusters = dict(zip(LINES, (rocketmq_4, rocketmq_5), strict=True))
    for line, cluster in clusters.items():
        stage_backlog(cluster, GROUP, TOPIC, BACKLOG[line])
    world.write_config(_config(clusters))
    world.run_dags()
    _wait_for(world, "CRITICAL", "the warning")
    # where the machine is busy, a run may leave its minute to a session that has not published anything yet
    wait_until(
        lambda: bool(_finished_runs(world) and _published(world)),
        timeout_s=PATIENCE_S,
        what=lambda: _failed_tasks(world),
    )
    warned = _told(world)

    run_id = _finished_runs(world)[-1]
    before = _published(world)
    world.api.clear("collect_and_judge", run_id)
    state_of_it = partial(world.api.run_state, "collect_and_judge", run_id)
    wait_until(lambda: state_of_it() != "queued", timeout_s=PATIENCE_S, what=lambda: _failed_tasks(world))
    with ThreadPoolExecutor(len(clusters)) as pool:  # meanwhile: no other run looks, and this one does not look again
        caught_up = [pool.submit(_catch_up, cluster, BACKLOG[line]) for line, cluster in clusters.items()]
        assert world.api.wait_for_run("collect_and_judge", run_id, timeout_s=PATIENCE_S) == "success"
        rerun = _told(world)
        after = {key: value for key, value in _published(world).items() if key in before}
        for done in caught_up:
            done.result()

    _wait_for(world, "RESOLVED", "the resolve notice")
    return Story(warned, rerun, (before, after), _told(world))


@pytest.mark.parametrize("line", LINES)
def test_mail_and_slack_say_which_group_lags_by_how_much_and_why(story: Story, line: str) -> None:
    mail, message = story.warned.about(line).mails[-1], story.warned.about(line).slack[-1]
    assert GROUP in str(mail.message["Subject"])
    assert message.channel.name == OWNER_CHANNEL
    for body in (mail.text, mail.html, f"{message.text} {message.blocks}"):
        for fact in (GROUP, TOPIC, line, f"{BACKLOG[line]:,}", "consumer_offline"):
            assert fact in (body or ""), f"{fact!r} is missing in:\n{body}"


@pytest.mark.browser
def test_mail_and_slack_are_read_in_a_browser(story: Story, world: World) -> None:
    """As people open them: the mail's own HTML, and the channel, each with what it is about and what to do."""
    with open_page() as page:
        page.set_default_timeout(PATIENCE_S * 1_000)
        for line in LINES:
            number = 1 + world.smtp.mails.index(story.warned.about(line).mails[-1])
            page.goto(f"{world.inbox.url}{number}.html")
            shown = page.inner_text("body")
            for fact in (GROUP, TOPIC, f"{BACKLOG[line]:,}"):
                assert fact in shown, f"{fact!r} is missing in the mail:\n{shown}"
        page.goto(world.slack.url)
        channel = page.inner_text("main")
        for fact in (GROUP, TOPIC, *LINES):
            assert fact in channel, f"{fact!r} is missing in the channel:\n{channel}"


@pytest.mark.parametrize("line", LINES)
def test_the_owner_hears_of_it_once_and_of_its_end_and_of_nothing_else(story: Story, line: str) -> None:
    """Each once by mail and once in Slack; before it what the first look saw, and nothing while the group catches up.

    In Slack the warning itself is marked as resolved, and each update stands below it.
    """
    told = story.resolved.about(line)
    mailed, posted = _marks(_subjects(told)), _marks([message.text for message in told.slack])
    assert re.fullmatch("(WARNING )?CRITICAL RESOLVED", " ".join(mailed)), _subjects(told)
    assert posted == ["RESOLVED", *mailed[1:]], _subjects(told)
    assert [message.thread_ts for message in told.slack] == [None, *[told.slack[0].ts] * (len(mailed) - 1)]


def test_a_rerun_of_an_interval_changes_nothing_and_sends_nothing(story: Story) -> None:
    before, after = story.published
    assert before == after
    for line in LINES:  # to others there may be something new to tell: groups of other tests are on these clusters
        assert story.rerun.about(line) == story.warned.about(line)


@pytest.mark.parametrize("line", LINES)
def test_when_the_group_has_caught_up_everybody_hears_of_it_once(story: Story, line: str) -> None:
    told = story.resolved.about(line)
    mail, message = told.mails[-1], told.slack[-1]
    assert re.search("resolved", str(mail.message["Subject"]), re.IGNORECASE)
    assert GROUP in mail.text
    assert mail.message["References"] == told.mails[0].message["References"], "not in the thread of the warning"
    assert message.thread_ts == told.slack[0].ts
    assert GROUP in f"{message.text} {message.blocks}"


@pytest.mark.parametrize("line", LINES)
def test_what_changed_is_written_down_of_each_minute_also_of_the_one_that_ran_again(
    story: Story, world: World, line: str
) -> None:
    published, _ = story.published
    engine = open_database(world.workspace.database_url)
    with reading(engine) as session:
        since, until = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC)
        count = changes.unknown_count(session, line, since, until)
        found = changes.listed(session, changes.Asked(line, since, until), limit=99)
    engine.dispose()
    assert published
    assert count <= 1, "of the newest the judge may not be done"
    assert [one.what for one in found if one.kind is None] == [], "what could not be read"


@pytest.mark.parametrize("line", LINES)
def test_the_data_docs_of_the_cluster_are_there(story: Story, world: World, line: str) -> None:
    page = (world.workspace.data_docs_folder / line / "index.html").read_text(encoding="utf-8")
    assert line in page


@pytest.mark.slow
def test_every_example_of_help_can_be_run(
    story: Story, world: World, rocketmq_5: RocketMQCluster, tmp_path: Path
) -> None:
    """As it stands there, with the reader's own names; what it finds is up to the cluster (0 or 1)."""
    del story  # which has filled the tables
    reader = _Reader(world, rocketmq_5, tmp_path)
    wrong = [
        f"{command}: {example}: {said}"
        for command, lines in examples().items()
        for example in lines
        if (said := reader.run(example)) is not None
    ]
    assert not wrong, "\n".join(wrong)


class _Reader:
    """Somebody who pastes examples into a shell, in a folder that has the files that they name."""

    def __init__(self, world: World, cluster: RocketMQCluster, folder: Path) -> None:
        """Make the files."""
        self._folder, self._count = folder, 0
        self._environment = {**os.environ, **world.workspace.variables, "USER": "reader"}
        self._environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        logs, store = cluster.masters[0].log_folder, cluster.masters[0].store
        with writing(open_database(world.workspace.database_url)) as session:
            # open, in a cluster that nobody judges: it stays open while examples are pasted
            incidents.save(session, [an_incident(incident_id="3fa2b1c4d5e6f708", cluster="elsewhere")])
        today, tomorrow = (datetime.now(UTC) + timedelta(days=days) for days in (0, 1))
        self._instead = {
            r"--from \S+T07:00 --to \S+T09:00": f"--from {today:%Y-%m-%d}T00:00 --to {tomorrow:%Y-%m-%d}T00:00",
            r"10\.0\.0\.[12]:9876": cluster.namesrv,
            r"--cluster (main|staging)": f"--cluster {LINES[1]}",
            r"--group (billing|order-settlement|g)\b": f"--group {GROUP}",
            r"'\^order'": f"'{GROUP}'",
            r"--topic orders": f"--topic {TOPIC}",
            r"/srv/(broker-a-0/logs|app/logs)": str(logs),
            r"/mnt/broker-a/store": str(store),
            r"config/offsetguard\.yml|staging\.yml|new-limits\.yml": str(world.config_file),
            r"--every 10s": "--every 1s",
            r"offsetguard record": "offsetguard record --every 1s --for 3s",
            r" --for 10m": "",
            r"expire 4": "expire 1",
            r"2026-11-(20|14)": f"{today:%Y-%m-%d}",
            r"2026-11-(21|23)": f"{tomorrow:%Y-%m-%d}",
            r" \|\| mail .*": "",
        }
        for name in ("broker.log", "filter.log"):
            (folder / name).write_bytes((logs / "broker.log").read_bytes())
        (folder / "otherdays").mkdir()
        (folder / "otherdays" / "broker.1.log.gz").write_bytes(gzip.compress((logs / "broker.log").read_bytes()))
        shutil.copyfile(next(cluster.folder.glob("clients/*/**/rocketmq_client.log")), folder / "rocketmq_client.log")
        (folder / "late.json").write_text('{"order": 1, "customer": "4711"}', encoding="utf-8")
        assert self.run("offsetguard record --namesrv 10.0.0.1:9876 --out incident-42") is None

    def run(self, example: str) -> str | None:
        """Run an example; None = it could be run. Files that it makes are its own."""
        self._count += 1
        line = filled_in(example, self._instead).replace("--out ", f"--out {self._count}-")
        line = line.replace(f"--out {self._count}-incident-42", "--out incident-42") if self._count == 1 else line
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        is_right = done.returncode in (0, 1) and "Traceback" not in done.stderr and "Usage:" not in done.stderr
        is_right |= "nothing was changed" in done.stderr  # of a message whose number the reader does not have
        return None if is_right else f"{line}: code {done.returncode}: {done.stderr[-500:]}"


def _config(clusters: dict[str, RocketMQCluster]) -> dict[str, Any]:
    return {
        "clusters": {line: {"name_servers": [cluster.namesrv]} for line, cluster in clusters.items()},
        "teams": {
            "orders": {"mail": [OWNER_MAIL], "slack": [f"#{OWNER_CHANNEL}"]},
            "others": {"mail": ["others@example.com"]},
        },
        "default_team": "others",
        "groups": [
            {"match": GROUP, "team": "orders", "max_lag_messages": 500, "max_lag_ms": 1_000},
            {"match": "*", "max_lag_messages": 10_000_000, "max_lag_ms": 10**12},
        ],
        "delivery": {"group_interval_ms": 60_000},  # the end may follow the warning at once
    }


def _catch_up(cluster: RocketMQCluster, backlog: int) -> None:
    with running_consumer(cluster, GROUP, TOPIC) as consumer:
        consumer.wait_until_consumed(backlog)


def _told(world: World) -> Told:
    return Told(tuple(world.smtp.mails), tuple(world.slack.messages))


def _subjects(told: Told) -> list[str]:
    return [str(mail.message["Subject"]) for mail in told.mails]


def _marks(subjects: list[str]) -> list[str]:
    return [subject.partition("]")[0].lstrip("[") for subject in subjects]


def _wait_for(world: World, mark: str, what: str) -> None:
    """Wait until each cluster's team has a mail whose subject has a mark, and as many Slack messages as mails."""

    def arrived() -> bool:
        told = [_told(world).about(line) for line in LINES]
        return all(
            any(mark in subject for subject in _subjects(each)) and len(each.slack) == len(each.mails) for each in told
        )

    wait_until(arrived, timeout_s=PATIENCE_S, what=lambda: f"{what}; so far: {_told(world)}; {_failed_tasks(world)}")


def _finished_runs(world: World) -> list[str]:
    """Return the ids of successful runs, newest first."""
    return [run["dag_run_id"] for run in world.api.runs("collect_and_judge") if run["state"] == "success"]


def _failed_tasks(world: World) -> str:
    """Say what is red, with the end of its log: the reason when nothing arrives."""
    reports = []
    for dag_id in ("collect_and_judge", "deliver_warnings"):
        for run in world.api.runs(dag_id)[:3]:
            for task in world.api.tasks(dag_id, run["dag_run_id"]):
                end = ""
                if task["state"] in ("failed", "up_for_retry"):
                    end = "\n".join(world.api.log(dag_id, run["dag_run_id"], task).splitlines()[-15:])
                reports.append(f"{run['run_after']} {task['task_id']}[{task['map_index']}] {task['state']} {end}")
    return "\n".join(reports)


def _published(world: World) -> dict[str, Any]:
    """Return what each published interval shows to readers."""
    engine = open_database(world.workspace.database_url)
    query = text("SELECT cluster, interval_start, snapshot_ids, verdict, run_id FROM published_intervals")
    with reading(engine) as session:
        return {f"{row.cluster} {row.interval_start}": tuple(row) for row in session.execute(query)}
