"""The command line: `offsetguard COMMAND`. Each command lives in a file of its own and is imported when it is used."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass

import click

from offsetguard.model.errors import OffsetGuardError

EXIT_ERROR = 2


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is, and what `offsetguard --help` says about it without importing it."""

    module: str
    attribute: str
    short_help: str


COMMANDS = {
    "check": LazyCommand("offsetguard.cli.check", "check", "Diagnose a live cluster now; needs nothing but this."),
    "collect": LazyCommand("offsetguard.cli.collect", "collect", "Collect one snapshot of clusters, and keep it."),
    "config": LazyCommand("offsetguard.cli.config", "config", "Check the configuration file."),
    "cycles": LazyCommand("offsetguard.cli.cycles", "cycles", "Show what each cycle did, and why some failed."),
    "demo": LazyCommand("offsetguard.cli.demo", "demo", "Start the embedded world: brokers in trouble, and warnings."),
    "diagnose": LazyCommand(
        "offsetguard.cli.diagnose",
        "diagnose",
        "Judge a support bundle, offline: what went wrong while it was recorded?",
    ),
    "explain": LazyCommand("offsetguard.cli.explain", "explain", "Say what is made of samples that you give, and why."),
    "forecasts": LazyCommand(
        "offsetguard.cli.forecasts", "forecasts", "Show how often what was forecast came as stated."
    ),
    "health": LazyCommand("offsetguard.cli.health", "health", "Say whether OffsetGuard itself does its work."),
    "history": LazyCommand("offsetguard.cli.history", "history", "Show the published past of a consumer group."),
    "incidents": LazyCommand(
        "offsetguard.cli.incidents", "incidents", "Show what is wrong and since when, and say that you look after it."
    ),
    "outbox": LazyCommand("offsetguard.cli.outbox", "outbox", "Show what waits to be sent, and send it again."),
    "parse-log": LazyCommand("offsetguard.cli.parse_log", "parse_log", "Say what logs of brokers and clients hold."),
    "quarantine": LazyCommand(
        "offsetguard.cli.quarantine", "quarantine", "Show rows that cannot be right, and judge them again."
    ),
    "queue-of": LazyCommand(
        "offsetguard.cli.queue_of", "queue_of", "Say which queue a message key goes to, and how it stands."
    ),
    "record": LazyCommand("offsetguard.cli.record", "record", "Record a support bundle: raw answers and log excerpts."),
    "replay": LazyCommand(
        "offsetguard.cli.replay", "replay", "Say what would have been found and sent in the published past."
    ),
    "silences": LazyCommand("offsetguard.cli.silences", "silences", "Hear nothing of certain incidents for a while."),
    "routes": LazyCommand("offsetguard.cli.routes", "routes", "Say who would be told of trouble, how and when."),
    "spark-server": LazyCommand("offsetguard.cli.spark_server", "spark_server", "Keep Spark warm on this machine."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].short_help) for name in self.list_commands(ctx)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="offsetguard")
def offsetguard() -> None:
    """Watch the consumer offsets of Apache RocketMQ and say what is wrong, why, and what to do.

    \b
    Examples:
      offsetguard check --namesrv 10.0.0.1:9876        what is wrong right now?
      offsetguard check --config config/offsetguard.yml --cluster main
      offsetguard collect --namesrv 10.0.0.1:9876      keep what is there right now
      offsetguard config check                         is my configuration right?
      offsetguard cycles --failed                      what could not be published, and why?
      offsetguard diagnose incident-42                 what does this support bundle show?
      offsetguard explain queue < windows.jsonl        which state is this queue in, by which rule?
      offsetguard health                               does OffsetGuard itself do its work?
      offsetguard history --cluster main --group g     how was this group doing?
      offsetguard incidents list                       what is wrong, since when, and who looks after it?
      offsetguard silences add --group "batch-*" --for 2h --comment "load test"
      offsetguard outbox list                          what could not be sent, and why?
      offsetguard quarantine list --cluster main       which rows were left out, and why?
      offsetguard queue-of 4711 --topic orders --namesrv 10.0.0.1:9876 --group billing    why is order 4711 late?
      offsetguard replay --from 2026-11-20 --to 2026-11-21    what would have been found and sent?
      offsetguard routes test --cluster main --group g     who would be told, how and when?
      offsetguard parse-log broker.log                 what does this log say?
      offsetguard COMMAND --help                       more, with examples
    """  # noqa: D301 click wants the character itself


def main() -> None:
    """Run the command line; an error of ours is told on stderr without a traceback, and ends with 2."""
    try:
        offsetguard(prog_name="offsetguard")
    except OffsetGuardError as error:
        click.echo(f"offsetguard: {error}", err=True)
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
