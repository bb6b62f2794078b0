"""A channel is one file: what it says of itself there is all that the rest of the product knows of it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import offsetguard
from offsetguard.catalogue import Sentence
from offsetguard.config.routes import RouteEntry, Team
from offsetguard.deliver.channels.channel import Unavailable
from offsetguard.deliver.deliver import CHANNELS, deliver_due
from offsetguard.model.notification import DECLARED, RECEIVER_LISTS
from offsetguard_peers.delivery.world import NOW, DeliveryWorld
from offsetguard_peers.http_server import HeartbeatListener

ADDED = re.compile(r"  --- plugins/offsetguard/(deliver/channels/teams_workflow\.py)\n((?:  \+.*\n)+)")
ASKED = """
import json
from datetime import UTC, datetime
from offsetguard.catalogue import Sentence
from offsetguard.config.routes import Delivery, RouteEntry, Team
from offsetguard.deliver.channels.channel import Connection, Handover, open_by
from offsetguard.deliver.deliver import CHANNELS
from offsetguard.deliver.in_doubt import InDoubt
from offsetguard.store.models import OutboxRow
from offsetguard_peers.cases.messages import VIEW

assert Team.model_validate({"teams_workflows": ["night"]}).model_dump()["teams_workflows"] == ["night"]
assert RouteEntry.model_validate({"teams_workflows": []}).fields_set() == ["teams_workflows"]
connection = Connection("night", None, None, None, URL, None, {"timeout": 60})
opened = open_by(CHANNELS["teams_workflow"], "night", connection, Delivery())
now = datetime.now(UTC)
message = OutboxRow(
    **dict.fromkeys(("idempotency_key", "team", "cluster", "rule_id", "thread_key", "status"), ""), attempts=1,
    channel="teams_workflow", receiver="night", interval_start=now, view_json=VIEW.model_dump_json(), created_at=now,
    next_attempt_at=now,
)
receipt = opened.deliver(message, Handover(None, InDoubt().slot("teams_workflow"), now))
print(receipt.text, "by", Sentence("channel_teams_workflow"))
"""


def test_the_channel_that_contributing_adds_as_one_file_is_known_everywhere(tmp_path: Path) -> None:
    package = Path(offsetguard.__file__).parent
    shutil.copytree(package, tmp_path / "offsetguard", ignore=shutil.ignore_patterns("__pycache__"))
    (file, diff), *_ = ADDED.findall((Path(__file__).parents[3] / "CONTRIBUTING.md").read_text("utf-8"))
    (tmp_path / "offsetguard" / file).write_text("".join(f"{line[3:]}\n" for line in diff.splitlines()), "utf-8")
    with HeartbeatListener(202) as workflow:
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); URL = {workflow.url!r}\n{ASKED}"
        asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert asked.stdout == "workflow night by Microsoft Teams\n", asked.stderr
    ((_, _, body),) = workflow.heard
    (card,) = json.loads(body)["attachments"]
    shown = [one["text"] for one in card["content"]["body"]]
    assert any("order-group" in one for one in shown), shown


@pytest.mark.parametrize("channel", sorted(RECEIVER_LISTS.values()))
def test_every_channel_has_its_list_in_teams_and_routes(channel: str) -> None:
    assert CHANNELS[channel].__module__.endswith(f".{channel}"), "a file is called like its channel"
    (field,) = [field for field, name in RECEIVER_LISTS.items() if name == channel]
    assert field in Team.model_fields
    assert field in RouteEntry.SETS
    assert Sentence(f"channel_{channel}") == DECLARED[channel].title


def test_a_message_of_a_channel_that_is_gone_waits_with_the_reason(world: DeliveryWorld) -> None:
    world.put("kept", "a@example.com")
    with world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE outbox SET channel = 'telex'")
    report = deliver_due(world.engine, lambda _: Unavailable("not asked for"), now=NOW)
    assert report.retried == 1
    assert "this release knows no channel 'telex'; it knows" in report.reasons[0]
