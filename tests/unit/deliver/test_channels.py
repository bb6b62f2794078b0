"""A channel is one file: what it says of itself there is all that the rest of the product knows of it."""

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

PAGER = """
from dataclasses import dataclass
from typing import ClassVar

from offsetguard.deliver.channels.channel import Receipt, Transport
from offsetguard.model.notification import Declared

CHANNEL = Declared(name="pager", receivers="pagers", meaning="beeps", title="pager", title_zh="寻呼机", note="old")


@dataclass(frozen=True, slots=True)
class Pager(Transport):
    LANES: ClassVar = 1
    CONNECTION_FIELD: ClassVar = None
    CONNECTION_NEEDS: ClassVar = "password"
    CONNECTION_ADVICE: ClassVar = "buy one"

    @classmethod
    def opened(cls, connection, delivery):
        return cls()

    def deliver(self, message, handover):
        return Receipt("beep")
"""
ASKED = """
from offsetguard.catalogue import Sentence, catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.config.routes import RouteEntry, Team
from offsetguard.deliver.deliver import CHANNELS

assert Team.model_validate({"pagers": ["night"]}).model_dump()["pagers"] == ["night"]
assert RouteEntry.model_validate({"pagers": []}).fields_set() == ["pagers"]
meaning = Team.model_json_schema()["properties"]["pagers"]["description"]
print(meaning, CHANNELS["pager"].__name__, Sentence("channel_pager"))
"""


def test_a_channel_that_is_added_as_one_file_is_known_everywhere(tmp_path: Path) -> None:
    package = Path(offsetguard.__file__).parent
    shutil.copytree(package, tmp_path / "offsetguard", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "offsetguard" / "deliver" / "channels" / "pager.py").write_text(PAGER, "utf-8")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{ASKED}"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert asked.stdout == "beeps Pager pager\n", asked.stderr


@pytest.mark.parametrize("channel", sorted(DECLARED))
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
