"""Names of which nothing is known are told from those that are known from the past only, with what comes near them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.catalogue import Catalogue, catalogue
from offsetguard.catalogue.text import Language, Locale
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import UnknownName
from offsetguard.model.intervals import Interval
from offsetguard.store import incidents
from offsetguard.store.database import writing
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    QUEUE_FACTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
)
from offsetguard.views.changes import AskedChanges
from offsetguard.views.fleet import Wanted
from offsetguard.views.group import AskedGroup
from offsetguard.views.incident import AskedIncident
from offsetguard.views.incidents import WantedIncidents
from offsetguard.views.queues import AskedQueues
from offsetguard.views.topic import AskedTopic
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse

ENGLISH = catalogue()
TABLES = (BROKER_FACTS, CLIENT_SNAPSHOTS, CLUSTER_FACTS, GROUP_FACTS, QUEUE_FACTS, TOPIC_FACTS, TOPIC_QUEUE_SNAPSHOTS)
Asking = Callable[[WorkspaceViews, Catalogue], Any]


def group(name: str, cluster: str = "main") -> Asking:
    return lambda views, words: views.group(AskedGroup(cluster=cluster, consumer_group=name), words)


def queues(name: str) -> Asking:
    return lambda views, _: views.queues(AskedQueues(cluster="main", consumer_group=name))


def topic(name: str) -> Asking:
    return lambda views, _: views.topic(AskedTopic(cluster="main", topic=name))


def incident(name: str) -> Asking:
    return lambda views, words: views.incident(AskedIncident(incident_id=name), words)


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceViews:
    """`billing` reads `orders` now, `retired` read `archive` ten days ago, `trouble` had an incident long ago."""
    folder: Path = tmp_path_factory.mktemp("names")
    warehouse = Warehouse.in_folder(folder, *TABLES)
    now = Interval.containing(datetime.now(UTC)).start
    for at, name, read in ((now - timedelta(days=10), "retired", "archive"), (now, "billing", "orders")):
        rows = {
            GROUP_FACTS: [{"consumer_group": name, "topic": read, "effective_lag": 0, "lost": 0}],
            TOPIC_FACTS: [{"topic": read, "produce_tps": 1.0}],
        }
        manifest = manifest_of(Interval(at)).to_json()
        warehouse.publish("main", Interval(at), rows, manifest_json=manifest)
    with writing(warehouse.engine) as session:
        since = now - timedelta(days=60)
        about = {"cluster": "main", "consumer_group": "trouble", "opened_at": since}
        ended = {"resolved_at": since + timedelta(hours=1), "resolution": "-"}
        incidents.save(session, [an_incident(incident_id="b111", **about, **ended)])
    config = folder / "names.yml"
    config.write_text(one_team_text(main="127.0.0.1:9", fresh="127.0.0.1:9"))
    workspace = Workspace(warehouse.workspace.home, config, warehouse.workspace.database_url)
    return WorkspaceViews(workspace, warehouse.engine)


@pytest.mark.parametrize(
    ("asked", "said", "chinese"),
    [
        (
            group("biling"),
            "nothing is known of consumer group 'biling'; did you mean 'billing'?",
            "您是否要找 'billing'",
        ),
        (group("zzz"), "nothing is known of consumer group 'zzz'", "没有消费组“zzz”的任何信息"),
        (group("billing", "mian"), "nothing is known of cluster 'mian'; did you mean 'main'?", "没有集群“mian”的"),
        (queues("Billings"), "nothing is known of consumer group 'Billings'; did you mean 'billing'?", "消费组"),
        (topic("ordrs"), "nothing is known of topic 'ordrs'; did you mean 'orders'?", "没有主题“ordrs”的"),
        (incident("b112"), "nothing is known of incident 'b112'; did you mean 'b111'?", "没有事件“b112”的"),
        (
            lambda views, words: views.changes(AskedChanges(cluster="mian"), words),
            "nothing is known of cluster 'mian'; did you mean 'main'?",
            "集群",
        ),
        (
            lambda views, words: views.incidents(WantedIncidents(cluster="zzz"), words),
            "nothing is known of cluster 'zzz'",
            "集群",
        ),
        (lambda views, words: views.fleet(Wanted(cluster="zzz"), words), "nothing is known of cluster 'zzz'", "集群"),
    ],
)
def test_a_name_of_which_nothing_is_known_is_told_with_what_comes_near(
    views: WorkspaceViews, asked: Asking, said: str, chinese: str
) -> None:
    with pytest.raises(UnknownName) as error:
        asked(views, ENGLISH)
    assert str(error.value) == said
    assert chinese in catalogue(Locale(Language.ZH)).read(error.value.text)


@pytest.mark.parametrize(
    "asked",
    [
        group("billing"),
        group("retired"),
        queues("retired"),
        group("trouble"),
        group("anything", "fresh"),  # nothing was published of its cluster: nobody knows
        topic("archive"),
        lambda views, words: views.changes(AskedChanges(cluster="fresh"), words),
        lambda views, words: views.fleet(Wanted(cluster="fresh"), words),
    ],
)
def test_what_is_known_from_the_past_or_cannot_be_known_is_shown(views: WorkspaceViews, asked: Asking) -> None:
    asked(views, ENGLISH)


def test_the_start_of_an_incidents_id_is_enough(views: WorkspaceViews) -> None:
    assert incident("b1")(views, ENGLISH).incident_id == "b111"
