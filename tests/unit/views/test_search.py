"""One search finds whatever has a name, in all clusters, and says when there is only one thing meant."""

import pytest

from offsetguard.catalogue import catalogue
from offsetguard.model.intervals import Interval
from offsetguard.store import incidents
from offsetguard.store.database import writing
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_FACTS, TOPIC_FACTS
from offsetguard.views.search import FOUND, AskedSearch
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse, minute


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceViews:
    """Two clusters with groups, topics, brokers, clients and an incident."""
    warehouse = Warehouse.in_folder(tmp_path_factory.mktemp("search"), GROUP_FACTS, TOPIC_FACTS, CLIENT_SNAPSHOTS)
    for cluster in ("main", "other"):
        groups = ["billing", f"only-{cluster}", *(f"many-{number}" for number in range(FOUND + 5))]
        rows = {
            GROUP_FACTS: [{"consumer_group": one, "topic": "orders"} for one in groups],
            TOPIC_FACTS: [{"topic": "Orders"}, {"topic": f"{cluster}-unread"}],
            CLIENT_SNAPSHOTS: [
                {"consumer_group": "billing", "client_id": f"10.0.0.1@{cluster}", "broker_name": broker}
                for broker in ("broker-a", "broker-b")
            ],
        }
        manifest = manifest_of(Interval(minute(0)), cluster=cluster, master_broker_names=(f"broker-{cluster}",))
        warehouse.publish(cluster, Interval(minute(0)), rows, manifest_json=manifest.to_json())
    with writing(warehouse.engine) as session:
        incidents.save(session, [an_incident(incident_id="f1ee7abc", cluster="main", consumer_group="billing")])
    return WorkspaceViews(warehouse.workspace, warehouse.engine)


@pytest.mark.parametrize(
    ("asked", "only"),
    [
        ("only-main", ("group", "main", "only-main", None)),
        (" ONLY-O ", ("group", "other", "only-other", None)),
        ("main-unr", ("topic", "main", "main-unread", None)),
        ("broker-other", ("broker", "other", "broker-other", None)),
        ("10.0.0.1@main", ("client", "main", "10.0.0.1@main", "billing")),
        ("f1ee7", ("incident", "main", "f1ee7abc", None)),
    ],
)
def test_a_name_that_one_thing_has_is_that_thing(
    views: WorkspaceViews, asked: str, only: tuple[str, str, str, str | None]
) -> None:
    found = views.search(AskedSearch(q=asked), catalogue()).only
    assert found is not None
    assert (found.kind.value, found.cluster, found.name, found.consumer_group) == only


def test_the_nearest_names_stand_first_and_of_many_the_others_are_counted(views: WorkspaceViews) -> None:
    billing = views.search(AskedSearch(q="billing"), catalogue())
    assert [(one.name, one.cluster) for one in billing.found] == [("billing", "main"), ("billing", "other")]
    assert billing.only is None, "which of the two is meant, only the reader knows"
    many = views.search(AskedSearch(q="many-1"), catalogue())
    assert [one.name for one in many.found[:2]] == ["many-1", "many-1"]
    all_of_them = views.search(AskedSearch(q="many"), catalogue())
    assert (len(all_of_them.found), all_of_them.found_count) == (FOUND, 2 * (FOUND + 5))
    for nothing in ("", "  ", "nowhere"):
        assert views.search(AskedSearch(q=nothing), catalogue()).found_count == 0


@pytest.mark.parametrize(("asked", "picked", "count"), [("main", "main", 1), ("other", "other", 0), ("", "", 1)])
def test_the_bar_counts_what_is_open_of_the_cluster_that_is_picked(
    views: WorkspaceViews, asked: str, picked: str, count: int
) -> None:
    bar = views.bar(asked)
    assert (bar.cluster, bar.clusters, bar.open_count) == (picked, ("main", "other"), count)


@pytest.mark.parametrize("asked", ["edge-*", "\0", "nowhere"])
def test_what_is_no_cluster_is_taken_for_all_of_them(views: WorkspaceViews, asked: str) -> None:
    bar = views.bar(asked)
    assert (bar.cluster, bar.open_count) == ("", 1)
