"""The command line: `offsetguard COMMAND`. A command is a file of this folder: `queue_of.py` holds `queue_of`."""

import importlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from offsetguard import cli
from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.processes import write_for_owner_only

EXIT_ERROR = 2
_STANDARD_OUTPUT = "the standard output"
_FIRST_LINE = re.compile(r'"""`offsetguard ([a-z-]+)`: (.+?)(?:""")?\n')


def short_helps() -> dict[str, str]:
    """Return what each command does, by its name: the first line of its file, which nobody imports for that."""
    texts = {}
    for file in sorted(Path(cli.__path__[0]).glob("*.py")):
        with file.open(encoding="utf-8") as opened:
            if match := _FIRST_LINE.fullmatch(opened.readline()):
                texts[match[1]] = match[2][0].upper() + match[2][1:]
    return texts


class _CommandFiles(click.Group):
    """Imports the one command that is called; overviews, completions and misspelt names need none."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(short_helps())

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in short_helps():
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{cli.__name__}.{name}"), name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(short_helps().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, text in short_helps().items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # which knows none: they are files
            raise click.NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None


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
        _prepare_standard_streams()
        offsetguard(prog_name="offsetguard")
    except Exception as error:
        said = said_of(error)
        if said is None:
            raise
        click.echo(f"offsetguard: {said}", err=True)
        sys.exit(EXIT_ERROR)


def said_of(error: Exception) -> str | None:
    """Return what to tell of an error, or None where it is a defect of ours."""
    from offsetguard.config.workspace import is_disk_error, why_unwritten  # noqa: PLC0415 an overview need not wait for them

    if isinstance(error, OffsetGuardError):
        return str(error)
    if isinstance(error, OSError) and error.filename == _STANDARD_OUTPUT:
        return f"{error.filename} cannot be written: {error.strerror}; lead it to where there is room"
    if isinstance(error, PermissionError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}; let this user read and write there, or run this as who may"
    if isinstance(error, OSError) and is_disk_error(error):
        return why_unwritten(Path(error.filename or tempfile.gettempdir()), error)
    from sqlalchemy.exc import OperationalError  # noqa: PLC0415

    from offsetguard.store.database_errors import what_failed  # noqa: PLC0415

    return f"our database did not answer: {what_failed(error)}" if isinstance(error, OperationalError) else None


class _StandardOutput(io.TextIOWrapper):
    """The standard output whose errors name it: by themselves they look like those of any file."""

    def write(self, text: str) -> int:
        with _named():
            return super().write(text)

    def flush(self) -> None:
        with _named():
            super().flush()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, _STANDARD_OUTPUT) from error


def _prepare_standard_streams() -> None:
    """Name the output; raises OffsetGuardError where it is closed, and opens the others: files would take their place.

    A file that is opened gets the lowest number that is free, and what is printed goes to number 1.
    """
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 stays open
    out = sys.stdout
    if out is None:
        raise OffsetGuardError(f"{_STANDARD_OUTPUT} is closed; lead it to a file, a pipe or /dev/null")
    sys.stdout = _StandardOutput(out.buffer, out.encoding, out.errors, line_buffering=out.isatty())


if __name__ == "__main__":
    main()
