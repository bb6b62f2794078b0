"""`offsetguard channels`: whether each team can be reached, by the connections that Airflow has."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import click

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.cli.output import show
from offsetguard.cli.parameters import WithExamples, check_is_known, format_option
from offsetguard.config import Config
from offsetguard.config.file import read_config_file
from offsetguard.config.routes import Route, receivers
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.channels.channel import Connection, Handover, Malformed, Transport, Unavailable, open_transport
from offsetguard.deliver.deliver import CHANNELS
from offsetguard.deliver.in_doubt import InDoubt
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import DECLARED, Receiver
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import EVERY_CLUSTER, IncidentView, MessageView, NotificationReason
from offsetguard.store.database import our_database
from offsetguard.store.models import OutboxRow, Status

TEST = "channels_test"  # stands where other messages have their rule id
config_option = click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Without it: OFFSETGUARD_CONFIG."
)


@click.group(cls=WithExamples)
def channels() -> None:
    """Channels: whether each team can be reached, by the connections that Airflow has.

    Connections are asked of the `airflow` of this environment: run it where the tasks run.

    \b
    Examples:
      offsetguard channels list                  every receiver, and what its connection lacks
      offsetguard channels test --team orders    sends one marked test message to each receiver of the team
    """


@channels.command("list")
@config_option
@format_option("receiver")
def list_channels(*, config_file: Path | None, as_json: bool) -> None:
    """Show who is told by what, and what its connection lacks; the exit code is 1 if one does. Sends nothing."""
    config = _config(config_file)
    found = [_line(team, one, _opened(one, config)) for team in config.teams for one in _receivers_of(config, team)]
    show(found, map(_text, found), as_json=as_json, nothing="No team has a receiver.")
    sys.exit(any(one["said"] for one in found))


@channels.command()
@click.option("--team", required=True, help="Whose receivers.")
@click.option("--yes", is_flag=True, help="Do not ask before it is sent.")
@config_option
@format_option("receiver")
def test(*, team: str, yes: bool, config_file: Path | None, as_json: bool) -> None:
    """Send one test message, marked as such, to each receiver of a team, and say what each answered.

    The exit code is 1 if one did not accept it.
    """
    config = _config(config_file)
    check_is_known("--team", team, config.teams)
    told = _receivers_of(config, team)
    if not yes:
        whom = ", ".join(f"{DECLARED[channel].title} {name}" for channel, name in told)
        click.confirm(f"Send a test message to {whom}?", abort=True, err=True)
    route = config.route(team, EVERY_CLUSTER, rule_id=TEST, severity=Severity.CRITICAL)
    opened = {one: _opened(one, config) for one in told}
    found = [{**_line(team, one, way), **_sent(one, way, route)} for one, way in opened.items()]
    show(found, map(_text, found), as_json=as_json, nothing=f"Team {team} has no receiver.")
    sys.exit(not all(one["accepted"] for one in found))


def _config(file: Path | None) -> Config:
    return read_config_file(file or Workspace.from_environment().config_file).config


def _receivers_of(config: Config, team: str) -> tuple[Receiver, ...]:
    return receivers(config.teams[team].model_dump())


def _line(team: str, receiver: Receiver, opened: Transport | Unavailable) -> dict[str, Any]:
    channel, name = receiver
    said = opened.reason if isinstance(opened, Unavailable) else ""
    return {"team": team, "channel": channel, "receiver": name, "said": said}


def _sent(receiver: Receiver, opened: Transport | Unavailable, route: Route) -> dict[str, Any]:
    channel, name = receiver
    now = datetime.now(UTC)
    view = test_view(route, now)
    message = OutboxRow(
        idempotency_key=f"{TEST} {uuid4()}",
        channel=channel,
        receiver=name,
        team=view.team,
        cluster=view.cluster,
        rule_id=TEST,
        thread_key=view.thread_key,
        interval_start=now,
        view_json=view.model_dump_json(),
        created_at=now,
        status=Status.PENDING,
        attempts=1,
        next_attempt_at=now,
    )
    try:
        receipt = opened.deliver(message, Handover(our_database(), InDoubt().slot(channel), now))
    except DeliveryError as error:
        return {"accepted": False, "said": harmless(str(error), 1_000)}
    return {"accepted": True, "said": receipt.text}


def test_view(route: Route, now: datetime) -> MessageView:
    """Return a message that says of itself that it is a test."""
    words = catalogue(Locale.of(route.language, route.time_zone))
    one = IncidentView(
        incident_id=TEST,
        consumer_group=None,
        topic=None,
        severity=Severity.INFO.value,
        state="OK",
        summary=words.say("channels_test_summary"),
        cause=words.say("channels_test_cause"),
        do_next="",
        opened_at=now,
        last_seen_at=now,
    )
    return MessageView(
        team=route.team,
        cluster=EVERY_CLUSTER,
        rule_id=TEST,
        severity=Severity.INFO.value,
        title=words.say("channels_test_summary"),
        reason=NotificationReason.FIRST,
        interval_start=now,
        thread_key=f"{TEST} {now.isoformat()}",
        firing=(one,),
        language=route.language.value,
        time_zone=route.time_zone,
    )


def _opened(receiver: Receiver, config: Config) -> Transport | Unavailable:
    channel, name = receiver
    kind = CHANNELS[channel]
    conn_id = kind.connection_id(config.delivery, name)
    try:
        return open_transport(kind, conn_id, _connection(conn_id), config.delivery)
    except Malformed as error:
        return Unavailable(f"Airflow connection {conn_id!r} is malformed: {error}")


def _connection(conn_id: str) -> Connection | None:
    """Return a connection as Airflow has it, from wherever that keeps it; None: there is none of that id."""
    command = [sys.executable, "-m", "airflow", "connections", "get", conn_id, "--output", "json"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in asked.stdout.splitlines() if line.startswith("[{")]
    if not lines:
        if "not found" in asked.stdout + asked.stderr:
            return None
        raise click.ClickException("airflow cannot be asked for connections here; run this where its tasks run")
    (found,) = json.loads(lines[-1])
    extra: dict[str, Any] = dict(parse_qsl(urlsplit(found["get_uri"]).query))  # whole, which `extra_dejson` is not
    extra = json.loads(extra["__extra__"]) if "__extra__" in extra else extra
    host, port, login, password, schema = (found[name] for name in ("host", "port", "login", "password", "schema"))
    return Connection(conn_id, host, port, login, password, schema, extra)


def _text(line: dict[str, Any]) -> str:
    """Return a receiver, and what there is to say of it."""
    what = "" if "accepted" not in line else "accepted: " if line["accepted"] else "not accepted: "
    said = line["said"] or "its connection is there"
    return f"{line['team']}  {DECLARED[line['channel']].title} {line['receiver']}: {what}{said}"
