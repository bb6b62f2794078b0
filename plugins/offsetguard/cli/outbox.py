"""`offsetguard outbox`: show what waits to be sent, and send it again."""

from collections.abc import Iterator
from itertools import chain

import click
from sqlalchemy import Engine

from offsetguard.catalogue.text import Language, format_moment
from offsetguard.cli.output import show
from offsetguard.cli.parameters import NAMES_SHOWN, WithExamples, format_option
from offsetguard.judge.registry import rule_title
from offsetguard.store import outbox as store
from offsetguard.store.database import our_database
from offsetguard.store.models import OutboxRow, Status


@click.group(cls=WithExamples)
def outbox() -> None:
    """Messages to people: what waits, what was refused for good, and why.

    The database is the one that Airflow uses: OFFSETGUARD_DATABASE_URL, or SQLite in OFFSETGUARD_HOME.

    \b
    Examples:
      offsetguard outbox list                    everything that was not accepted yet
      offsetguard outbox list --status sent
      offsetguard outbox redrive --all           after a wrong address or channel was corrected
      offsetguard outbox redrive 17 18
      offsetguard outbox dismiss 19              nobody is to get it any more, and `offsetguard health` is well again
    """


@outbox.command("list")
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    help="Only rows of this status. Without it: pending and failed ones, and what is off.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many rows.")
@format_option("message")
def list_messages(*, status: str | None, limit: int, as_json: bool) -> None:
    """Show messages, newest first, with the reason of each that was not accepted."""
    wanted = [Status(status)] if status else [Status.PENDING, *store.REFUSED]
    engine = our_database()
    found = [row for one in wanted for row in store.messages(engine, status=one, limit=limit)]
    rows = sorted(found, key=lambda row: -row.id)[:limit]
    nothing = "Nothing waits." if status is None else f"No message is {status}."
    show(map(_document, rows), chain.from_iterable(map(_texts, rows)), as_json=as_json, nothing=nothing, limit=500)


@outbox.command()
@click.argument("ids", nargs=-1, type=int)
@click.option("--all", "every", is_flag=True, help="Every message that was refused for good.")
def redrive(*, ids: tuple[int, ...], every: bool) -> None:
    """Make messages that were refused for good due again; the next sweep sends them."""
    engine = _database_of(ids, every=every)
    count = store.redrive(engine, ids=ids or None)
    click.echo(f"{count} message{'' if count == 1 else 's'} will be sent with the next sweep of deliver_warnings")


@outbox.command()
@click.argument("ids", nargs=-1, type=int)
@click.option("--all", "every", is_flag=True, help="Every message that was refused for good.")
def dismiss(*, ids: tuple[int, ...], every: bool) -> None:
    """Let messages that were refused for good count as seen: nobody gets them, and they are trouble no more."""
    engine = _database_of(ids, every=every)
    count = store.dismiss(engine, ids=ids or None)
    click.echo(f"{count} message{'' if count == 1 else 's'} dismissed: offsetguard outbox list --status dismissed")


def _database_of(ids: tuple[int, ...], *, every: bool) -> Engine:
    """Return the database that has these messages; raises UsageError where one of them was not refused for good."""
    if every == bool(ids):
        raise click.UsageError("say which: numbers of `offsetguard outbox list`, or --all")
    engine = our_database()
    failed = [row.id for one in store.REFUSED for row in store.messages(engine, status=one)] if ids else []
    if wrong := [number for number in ids if number not in failed]:
        there = ", ".join(map(str, sorted(failed)[:NAMES_SHOWN])) or "none"
        named = ", ".join(map(str, wrong))
        raise click.UsageError(f"not refused for good: {named}; those that are: {there}; nothing was changed")
    return engine


_SHOWN = (
    *("id", "status", "channel", "receiver", "team", "cluster", "created_at"),
    *("attempts", "next_attempt_at", "last_error"),
)


def _document(row: OutboxRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in _SHOWN} | {"rule": row.rule_id, "title": _title(row)}


def _texts(row: OutboxRow) -> Iterator[str]:
    yield f"{row.id}  {row.status}  {row.channel} to {row.receiver}: {_title(row)}"
    yield f"    {row.cluster}, {row.rule_id}, written {format_moment(row.created_at)}, {row.attempts} attempts"
    if row.last_error:
        yield f"    {row.last_error}"


def _title(row: OutboxRow) -> str:
    """Return what a message is, in English: the message speaks its reader's language."""
    return rule_title(row.rule_id, Language.EN)
