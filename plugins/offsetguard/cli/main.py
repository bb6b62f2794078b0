"""The command line: `offsetguard COMMAND`. A command is a file of this folder: `queue_of.py` holds `queue_of`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

import click

from offsetguard import cli
from offsetguard.config.disk import is_disk_error, why_unwritten
from offsetguard.config.workspace import write_for_owner_only
from offsetguard.model.errors import OffsetGuardError

EXIT_ERROR = 2


class _CommandFiles(click.Group):
    """Finds commands by their files, and imports the one that is used; an overview imports them all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = (one.name.replace("_", "-") for one in pkgutil.iter_modules(cli.__path__))
        return sorted(name for name in names if self.get_command(ctx, name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # which knows none: they are files
            raise click.NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name.replace("-", "_")
        if name not in {one.name for one in pkgutil.iter_modules(cli.__path__)}:
            return None
        command = getattr(importlib.import_module(f"{cli.__name__}.{name}"), name, None)
        return command if isinstance(command, click.Command) else None


_WANTED_FIRST = """\
What is wrong right now?        offsetguard check --namesrv HOST:9876
What does this bundle show?     offsetguard diagnose FOLDER
What is open, and who knows?    offsetguard incidents list

All commands, with examples:    offsetguard --help"""


@click.group(cls=_CommandFiles, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="offsetguard")
@click.pass_context
def offsetguard(context: click.Context) -> None:
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
      offsetguard mcp                                  let an assistant on call ask, and change nothing
      offsetguard outbox list                          what could not be sent, and why?
      offsetguard quarantine list --cluster main       which rows were left out, and why?
      offsetguard queue-of 4711 --topic orders --namesrv 10.0.0.1:9876 --group billing    why is order 4711 late?
      offsetguard replay --from 2026-11-20 --to 2026-11-21    what would have been found and sent?
      offsetguard routes test --cluster main --group g     who would be told, how and when?
      offsetguard parse-log broker.log                 what does this log say?
      offsetguard COMMAND --help                       more, with examples
    """
    if context.invoked_subcommand is None:
        click.echo(_WANTED_FIRST)


def main() -> None:
    """Run the command line; an error that is no defect of ours is one line on stderr, and ends with 2."""
    write_for_owner_only()
    try:
        offsetguard(prog_name="offsetguard")
    except Exception as error:
        said = said_of(error)
        if said is None:
            raise
        click.echo(f"offsetguard: {said}", err=True)
        sys.exit(EXIT_ERROR)


def said_of(error: Exception) -> str | None:
    """Return what to tell of an error, or None where it is a defect of ours."""
    if isinstance(error, OffsetGuardError):
        return str(error)
    if isinstance(error, OSError) and is_disk_error(error):
        return why_unwritten(Path(error.filename or tempfile.gettempdir()), error)
    from sqlalchemy.exc import OperationalError  # noqa: PLC0415 not for who completes words in a shell

    return f"our database did not answer: {error.orig}" if isinstance(error, OperationalError) else None


if __name__ == "__main__":
    main()
