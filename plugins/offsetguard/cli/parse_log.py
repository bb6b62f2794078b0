"""`offsetguard parse-log`: say what logs of brokers and clients hold."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click

from offsetguard.catalogue.text import format_moment
from offsetguard.cli.output import json_line
from offsetguard.cli.parameters import format_option
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.intervals import zone_of
from offsetguard.sources.logs.events import LogEvent, Unreadable, read_records
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.logs.matching import PATTERNS
from offsetguard.sources.logs.pattern import LogKind, Pattern

EXIT_UNREADABLE_LINES = 1
EXIT_UNREADABLE_FILE = 2
STANDARD_INPUT = "-"
_AUTO = "auto"
_PIECE_BYTES = 256 * 1024
_TEXT_LIMIT = 2_000
_MAX_TOLD = 10  # unreadable places that are shown; all are counted


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--kind",
    type=click.Choice([_AUTO, *(kind.value for kind in LogKind)]),
    default=_AUTO,
    show_default=True,
    help="Only lines of this log. auto: all; lines are told apart by their text, not by the file's name.",
)
@click.option(
    "--time-zone",
    default="+08:00",
    show_default=True,
    help="Zone of the times in the files. Brokers, and clients since 5.0, write GMT+8 wherever they run; "
    "4.x clients write the zone of their host: say which, e.g. UTC or Europe/Berlin.",
)
@format_option("event")
def parse_log(*, files: tuple[str, ...], kind: str, time_zone: str, as_json: bool) -> None:
    """Read logs of RocketMQ brokers and clients (4.9 and 5.x), and say what they hold.

    Each recognised line becomes one event: {"kind", "at", "source_line", "file", "level", "thread", ...fields}. `at` is
    UTC, `source_line` the number of the line in its file. Kinds and fields: docs/logs.md. Compressed files are read as
    they are; - is the standard input. How many lines were recognised, skipped and unreadable is told on stderr.

    \b
    Exit code: 0 everything could be read, 1 lines without a time or in a foreign layout, 2 a file could not be read.

    \b
    Examples:
      offsetguard parse-log broker.log filter.log
      offsetguard parse-log otherdays/broker.*.log.gz | grep '"offset_corrected"'
      offsetguard parse-log --time-zone UTC rocketmq_client.log
    """
    zone = zone_of(time_zone)
    patterns = [pattern for pattern in PATTERNS if kind == _AUTO or LogKind(kind) in pattern.log_kinds]
    show = _as_json if as_json else _as_text
    counts: Counter[str] = Counter()
    for file in files:
        try:
            for line in _events(file, zone, patterns, counts):
                sys.stdout.write(show(file, line) + "\n")
        except BrokenPipeError:  # the reader of our output has seen enough; click ends quietly
            raise
        except OSError as error:
            counts["file"] += 1
            click.echo(f"{harmless(file, _TEXT_LIMIT)}: {error.strerror or error}", err=True)
    sys.stdout.flush()
    click.echo(
        f"{counts['recognised']} lines recognised, {counts['skipped']} skipped, {counts['unreadable']} unreadable",
        err=True,
    )
    if counts["file"]:
        sys.exit(EXIT_UNREADABLE_FILE)
    if counts["unreadable"]:
        sys.exit(EXIT_UNREADABLE_LINES)


def _events(file: str, zone: tzinfo, patterns: Sequence[Pattern], counts: Counter[str]) -> Iterator[LogEvent]:
    """Yield the events of one file, count its lines, and tell where it cannot be read. Raises OSError."""
    for outcome in read_records(_pieces(file), zone, patterns=patterns):
        if isinstance(outcome, LogEvent):
            counts["recognised"] += 1
            counts["skipped"] += outcome.line_count - 1  # a stack trace, the rest of a remark
            yield outcome
        elif isinstance(outcome, Unreadable):
            counts["unreadable"] += outcome.line_count
            counts["places"] += 1
            if counts["places"] <= _MAX_TOLD:
                where = f"{harmless(file, _TEXT_LIMIT)}:{outcome.line}"
                click.echo(f"{where}: {outcome.reason}: {harmless(outcome.text, 100)}", err=True)
        else:
            counts["skipped"] += outcome.line_count


def _pieces(file: str) -> Iterator[bytes]:
    with LogStream(file, sys.stdin.buffer if file == STANDARD_INPUT else None) as stream:
        yield from iter(lambda: stream.read(_PIECE_BYTES), b"")


def _as_json(file: str, event: LogEvent) -> str:
    return json_line(
        {
            "kind": event.kind,
            "at": event.at,
            "source_line": event.line,
            "file": file,
            "level": event.level,
            "thread": event.thread,
            **event.fields,
        }
    )


def _as_text(file: str, event: LogEvent) -> str:
    fields = " ".join(f"{name}={value}" for name, value in event.fields.items() if value is not None)
    return harmless(f"{format_moment(event.at)}  {event.kind}  {fields}  ({file}:{event.line})", _TEXT_LIMIT)
