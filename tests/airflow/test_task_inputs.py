"""What tasks take from the trigger form and from Airflow's dates."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowFailException

from offsetguard.collect.landing import land
from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.rules import facts_not_published
from offsetguard.lake.creation import create_missing_tables
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.store.models import CycleRow
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import QUEUE_STATE
from offsetguard_airflow.operators.spark_jobs import IngestBrokerLogsOperator, RecomputeFactsOperator
from offsetguard_airflow.task_inputs import (
    PUBLISHED_WITHIN,
    FactsToJudge,
    check_group_pattern,
    chosen_clusters,
    configuration,
    interval_at,
    open_workspace,
    workspace_of_task,
)
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.disks import tiny_disk
from offsetguard_peers.judging.records import a_group

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))


@pytest.mark.parametrize(
    "moment", ["2026-11-21T10:39:00+00:00", "2026-11-21T10:39:59.9+00:00", "2026-11-21T18:39:12+08:00"]
)
def test_any_moment_of_a_minute_names_its_interval_when_it_has_a_zone(moment: str) -> None:
    assert interval_at(moment) == INTERVAL
    with pytest.raises(ValueError, match="has no time zone"):
        interval_at("2026-11-21T10:39:00")


def test_the_form_s_cluster_is_one_or_all_and_an_unknown_one_is_answered_with_them(config_file: Path) -> None:
    assert chosen_clusters("all") == ["backup", "main"]
    assert chosen_clusters("main") == ["main"]
    with pytest.raises(AirflowFailException) as raised:
        chosen_clusters("mian")
    assert str(raised.value).startswith(f"{config_file}: clusters: there is no cluster 'mian'; did you mean 'main'?")
    assert "backup, main" in str(raised.value)


def test_a_run_goes_on_with_the_clusters_of_the_last_right_file_and_says_so(config_file: Path) -> None:
    assert chosen_clusters("all") == ["backup", "main"]
    config_file.write_text("clusters: {}\n")
    assert chosen_clusters("all") == ["backup", "main"]
    logged: list[str] = []
    configuration(Workspace.from_environment(), logged.append)
    assert logged[0].startswith(f"{config_file}:1: clusters: is empty; at least one entry is needed")
    assert logged[-1] == "the configuration file is broken; going on with the last one that was right"


def _facts(*groups: str) -> IntervalFacts:
    return IntervalFacts(
        "main",
        INTERVAL,
        INTERVAL.end,
        groups=tuple(a_group(group, online_client_count=1, message_model="CLUSTERING") for group in groups),
    )


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("order-biling", "similar: order-billing"),
        ("ORDER-BILLING", "similar: order-billing"),
        ("zebra", "there are 2 groups, none of a similar name"),
    ],
)
def test_a_pattern_that_matches_nothing_is_answered_with_similar_names(pattern: str, hint: str) -> None:
    for known in ("order-billing", "order-*", "*", "*-billing", "order-b?lling"):
        check_group_pattern(known, _facts("order-billing", "stock"))
    with pytest.raises(ConfigError) as raised:
        check_group_pattern(pattern, _facts("order-billing", "stock"))
    assert repr(pattern) in str(raised.value)
    assert hint in str(raised.value)


FORM = {
    "cluster": "main",
    "files": ["/mnt/a b/*.log", "--broker-id=7"],
    "broker_name": None,
    "broker_id": 0,
    "time_zone": "+08:00",
    "routine": False,
    "dry_run": True,
}


def rendered(dag_id: str, task_id: str, context: dict[str, Any], *fields: str) -> dict[str, Any]:
    """Return fields of a DAG's task as Airflow fills them in."""
    dag = DagBag(str(Path(__file__).parents[2] / "dags" / f"{dag_id}.py")).dags[dag_id]
    task = dag.get_task(task_id)
    environment = task.get_template_env(dag)
    return {name: task.render_template(getattr(task, name), context, environment) for name in fields}


def test_the_form_becomes_a_command_line_in_which_no_value_is_an_option() -> None:
    form = rendered("ingest_broker_logs", "ingest_broker_logs", {"params": FORM}, "form")
    assert form == {"form": FORM}, "it arrives with its types"
    assert IngestBrokerLogsOperator(task_id="ingest_broker_logs", **form).job_arguments() == [
        "--cluster=main",
        "--broker-name=",
        "--broker-id=0",
        "--time-zone=+08:00",
        "--files=/mnt/a b/*.log",
        "--files=--broker-id=7",
        "--dry-run",
    ]


SPAN = {
    "cluster": "main",
    "from": "2026-11-14T00:00:00+00:00",
    "to": "2026-11-20T23:59:00Z",
    "rebuild_state": True,
    "dry_run": False,
}


def test_a_recomputation_goes_on_with_what_its_run_was_asked_for(config_file: Path) -> None:
    """`since` is the moment of the trigger, so that a second try does not begin again."""
    del config_file  # which has the cluster
    context = {"params": SPAN, "dag_run": SimpleNamespace(run_after=INTERVAL.start)}
    fields = rendered("recompute_facts", "recompute_facts", context, "form", "since")
    operator = RecomputeFactsOperator(task_id="recompute_facts", **fields)
    assert operator.job_arguments() == [
        "--cluster=main",
        "--from=2026-11-14T00:00:00+00:00",
        "--to=2026-11-20T23:59:00Z",
        "--since=2026-11-21T10:39:00+00:00",
        "--rebuild-state",
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cluster": "mian"}, "there is no cluster 'mian'; did you mean 'main'?"),
        ({"to": "2026-11-13T00:00:00Z"}, "the span ends (2026-11-13T00:00:00Z) before it begins"),
    ],
)
def test_what_is_wrong_with_a_form_is_said_and_not_tried_again(
    config_file: Path, wrong: dict[str, str], said: str
) -> None:
    del config_file
    operator = RecomputeFactsOperator(task_id="recompute_facts", form=SPAN | wrong, since=INTERVAL.start.isoformat())
    with pytest.raises(AirflowFailException) as raised:
        operator.job_arguments()
    assert said in str(raised.value)


class Landed:
    """A workspace in which rounds have landed and nothing was published."""

    def __init__(self, *minutes_ago: int) -> None:
        """Land rounds that began so many minutes ago."""
        self.ours = open_workspace(print)
        self.now = Interval.containing(datetime.now(UTC))
        for minutes in minutes_ago:
            start = self.at(minutes).start
            counts = RequestCounts()
            manifest = Manifest(
                cluster="main",
                interval_start=start,
                started_at=start,
                finished_at=start,
                requests=counts,
                row_counts={},
            )
            land(self.ours.workspace.landing_folder, manifest, {})

    def at(self, minutes_ago: int) -> Interval:
        return Interval(self.now.start - timedelta(minutes=minutes_ago))

    def read(self, minutes_ago: int, *, is_history: bool = False, state: str | None = None) -> IntervalFacts:
        """Wait for the facts to judge; `state`: of the task that publishes them."""
        wanted = FactsToJudge(
            self.ours,
            "main",
            self.at(minutes_ago),
            is_history=is_history,
            publication_state=lambda: state,
            say=print,
        )
        while (facts := wanted.look()) is None:
            time.sleep(0.1)
        return facts


def test_once_a_minute_is_not_published_for_two_nobody_waits_for_spark(config_file: Path) -> None:
    """The newest round is seconds old, and waits for nothing: an older one has waited in vain."""
    del config_file
    landed, began = Landed(3, 0), time.monotonic()
    facts = landed.read(0)
    assert time.monotonic() - began < PUBLISHED_WITHIN.total_seconds() / 2
    assert (facts.audited, facts.interval) == (False, landed.at(0))
    assert (facts.unpublished_since, facts.first_landed_at) == (None, landed.at(3).start)


def test_the_judge_goes_on_when_the_disk_of_tables_and_landed_rounds_is_full(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our database is elsewhere; from the tables and the rounds the judge only reads."""
    del config_file
    monkeypatch.setenv("OFFSETGUARD_DATABASE_URL", f"sqlite:///{tmp_path / 'offsetguard.db'}")
    with tiny_disk(tmp_path / "disk") as disk:
        monkeypatch.setenv("OFFSETGUARD_HOME", str(disk.folder))
        landed = Landed(5, 3, 0)
        published = landed.at(5)
        create_missing_tables(landed.ours.workspace, [QUEUE_STATE])
        of_nobody = {QUEUE_STATE.name: 42}
        manifest = manifest_of(published).to_json()
        row = PublishedInterval("main", published, "run", landed.now.start, "audited", of_nobody, manifest)
        published_intervals.record(landed.ours.engine, row)
        disk.fill()
        facts = landed.read(0)
    assert (facts.audited, facts.unpublished_since) == (False, published.end)


def test_a_publication_of_ninety_seconds_is_recorded_as_slow_and_not_as_absent(config_file: Path) -> None:
    """Minutes wait for each other then: what is told says how long one took, and that publishing goes on."""
    landed = Landed(5, 4, 3, 2, 1, 0)
    ended = datetime.now(UTC) - timedelta(seconds=20)
    published = landed.at(5)
    row = PublishedInterval("main", published, "run", ended, "audited", {}, manifest_of(published).to_json())
    published_intervals.record(landed.ours.engine, row)
    began = ended - timedelta(seconds=90)
    cycles.record(landed.ours.engine, CycleRow("main", published.start, "run", began, ended, verdict="published"))
    facts = landed.read(0)
    assert (facts.audited, facts.publication_ended_at, facts.publication_ms) == (False, ended, 90_000)
    (finding,) = facts_not_published.find(facts, load_config(config_file))
    assert (finding.variant, finding.summary) == ("slow", "facts are published 5 min late")
    assert "took 1 min 30 s" in finding.cause


def test_a_minute_of_which_nobody_would_be_told_waits_until_its_publication_has_failed(config_file: Path) -> None:
    """A backfill of a young one, and a rerun of one that is older than `notify_within_ms`."""
    del config_file
    landed = Landed(30, 3)
    for minutes_ago, is_history in ((3, True), (30, False)):
        with pytest.raises(PublishError, match="is failed: look at its log"):
            landed.read(minutes_ago, is_history=is_history, state="failed")


@pytest.mark.parametrize(
    ("run_type", "is_backfill"), [("backfill", "True"), ("scheduled", "False"), ("manual", "False")]
)
def test_a_backfill_publishes_what_is_published_already_and_is_judged_as_history(
    run_type: str, is_backfill: str
) -> None:
    context = {"dag_run": SimpleNamespace(run_type=DagRunType(run_type))}
    for task_id, field in (("publish_interval", "again"), ("judge_interval", "replay")):
        given = rendered("collect_and_judge", task_id, context, field)
        assert given == {field: is_backfill}


def test_a_store_is_read_as_the_connection_says_where_the_environment_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION")
    for name in names:  # what the task sets is taken back
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("OFFSETGUARD_HOME", "s3://offsets/production/")
    assert workspace_of_task().store == "s3://offsets/production"
    assert not [name for name in names if name in os.environ], "then the host's role counts"
    extra = {"region_name": "eu-central-1", "endpoint_url": "https://store.example.org"}
    connection = {"conn_type": "aws", "login": "key", "password": "secret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(connection))
    workspace_of_task()
    found = [os.environ.get(name) for name in names]
    assert found == ["key", "secret", None, "https://store.example.org", "eu-central-1"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    workspace_of_task()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "of the environment"
