"""`offsetguard channels`: whether each team can be reached, by the connections that Airflow has."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.cli.connections import opened
from offsetguard.cli.output import show
from offsetguard.cli.parameters import WithExamples, check_is_known, format_option
from offsetguard.config import Config
from offsetguard.config.file import read_config_file
from offsetguard.config.routes import Route, receivers
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.channels.channel import Handover, Transport, Unavailable
from offsetguard.deliver.in_doubt import InDoubt
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import DECLARED, Receiver
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import EVERY_CLUSTER, IncidentView, MessageView, NotificationReason
from offsetguard.store import outbox
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
    """Show who is told by what, and what its connection lacks, or why it is switched off; the exit code is 1 then.

    Sends nothing.
    """
    config = _config(config_file)
    told = [(team, one) for team in config.teams for one in _receivers_of(config, team)]
    told += [("every team", one) for one in config.delivery.receivers]
    ways = opened(config, [one for _, one in told])
    found = [_line(team, one, ways[one]) for team, one in told]
    show(found, map(_text, found), as_json=as_json, nothing="No team has a receiver.")
    sys.exit(any(one["said"] for one in found))


@channels.command()
@click.option("--team", required=True, help="Whose receivers.")
@click.option("--yes", is_flag=True, help="Do not ask before it is sent.")
@config_option
@format_option("receiver")
def test(*, team: str, yes: bool, config_file: Path | None, as_json: bool) -> None:
    """Send one test message, marked as such, to each receiver of a team, and say what each answered.

    A team that has none is tested by the Alertmanagers, which are sent no alert. The exit code is 1 if one did not
    accept it.
    """
    config = _config(config_file)
    check_is_known("--team", team, config.teams)
    told = _receivers_of(config, team) or config.delivery.receivers
    if not yes:
        whom = ", ".join(f"{DECLARED[channel].title} {name}" for channel, name in told)
        click.confirm(f"Send a test message to {whom}?", abort=True, err=True)
    route = config.route(team, EVERY_CLUSTER, rule_id=TEST, severity=Severity.CRITICAL)
    ways = opened(config, told)
    found = [{**_line(team, one, way), **_sent(one, way, route)} for one, way in ways.items()]
    show(found, map(_text, found), as_json=as_json, nothing=f"Team {team} has no receiver.")
    sys.exit(not all(one["accepted"] for one in found))


def _config(file: Path | None) -> Config:
    return read_config_file(file or Workspace.from_environment().config_file).config


def _receivers_of(config: Config, team: str) -> tuple[Receiver, ...]:
    return receivers(config.teams[team].model_dump())


def _line(team: str, receiver: Receiver, way: Transport | Unavailable) -> dict[str, Any]:
    channel, name = receiver
    why_off = outbox.why_off(our_database(), outbox.Lane(channel, name))
    said = way.reason if isinstance(way, Unavailable) else why_off or ""
    return {"team": team, "channel": channel, "receiver": name, "said": said}


def _sent(receiver: Receiver, way: Transport | Unavailable, route: Route) -> dict[str, Any]:
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
        receipt = way.deliver(message, Handover(our_database(), InDoubt().slot(channel), now))
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


def _text(line: dict[str, Any]) -> str:
    """Return a receiver, and what there is to say of it."""
    what = "" if "accepted" not in line else "accepted: " if line["accepted"] else "not accepted: "
    said = line["said"] or "its connection is there"
    return f"{line['team']}  {DECLARED[line['channel']].title} {line['receiver']}: {what}{said}"
