"""What views bring into the API server's process: every MiB of it is there once for each of its workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from offsetguard.model.intervals import Interval
from offsetguard.store import incidents
from offsetguard.store.database import writing
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    OFFSET_MOVE_FACTS,
    QUEUE_FACTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    Table,
)
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Row, Warehouse, minute

VIEWS = """
import sys
from pathlib import Path
from offsetguard.catalogue import catalogue
from offsetguard.config.workspace import Workspace
from offsetguard.store.database import open_database
from offsetguard.views.changes import AskedChanges
from offsetguard.views.fleet import Wanted
from offsetguard.views.group import AskedGroup
from offsetguard.views.incident import AskedIncident
from offsetguard.views.queues import AskedQueues
from offsetguard.views.search import AskedSearch
from offsetguard.views.silences import AskedSilences
from offsetguard.views.topic import AskedTopic
from offsetguard.views.workspace_views import WorkspaceViews

home, url = Path(sys.argv[1]), sys.argv[2]
views, words = WorkspaceViews(Workspace(home, home / "none.yml", url), open_database(url)), catalogue()
assert len(views.fleet(Wanted(), words).groups) == 1
views.group(AskedGroup(cluster="main", consumer_group="billing", span="30d"), words)
views.queues(AskedQueues(cluster="main", consumer_group="billing"))
views.topic(AskedTopic(cluster="main", topic="orders"))
assert views.incident(AskedIncident(incident_id="i1"), words).lost == 2
views.changes(AskedChanges(cluster="main"), words)
assert views.search(AskedSearch(q="billing"), words).found_count == 1
views.silences(AskedSilences(rule="*"), words)
print(sorted({"pandas", "pyarrow._dataset", "pyiceberg.io.pyarrow"} & sys.modules.keys()))
"""


def test_no_view_imports_pandas_or_the_datasets_of_pyarrow(tmp_path: Path) -> None:
    tables = (BROKER_FACTS, CLIENT_SNAPSHOTS, CLUSTER_FACTS, GROUP_FACTS, OFFSET_MOVE_FACTS, QUEUE_FACTS, TOPIC_FACTS)
    warehouse = Warehouse.in_folder(tmp_path, *tables, TOPIC_QUEUE_SNAPSHOTS)
    queue = {"topic": "orders", "broker_name": "broker-a", "queue_id": 0, "min_offset": 1, "max_offset": 9}
    for number in range(3):
        group = {"consumer_group": "billing", "topic": "orders", "effective_lag": number, "lost": number, "lag_ms": 1}
        rows: dict[Table, list[Row]] = {
            BROKER_FACTS: [{"broker_name": "broker-a", "broker_id": 0, "boot_at": minute(number)}],
            CLIENT_SNAPSHOTS: [{"consumer_group": "billing", "client_id": f"{number}@1", "broker_name": "broker-a"}],
            CLUSTER_FACTS: [{"effective_lag": number}],
            GROUP_FACTS: [group],
            QUEUE_FACTS: [{"consumer_group": "billing", **queue, "effective_lag": number}],
            TOPIC_FACTS: [{"topic": "orders", "produce_tps": 1.0}],
            TOPIC_QUEUE_SNAPSHOTS: [queue],
        }
        interval = Interval(minute(number))
        warehouse.publish("main", interval, rows, manifest_json=manifest_of(interval).to_json())
    with writing(warehouse.engine) as session:
        incidents.save(session, [an_incident(cluster="main", opened_at=minute(0))])
    asked = [sys.executable, "-c", VIEWS, str(warehouse.workspace.home), warehouse.workspace.database_url]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert said.stdout.splitlines()[-1:] == ["[]"], said.stderr[-2_000:]
