"""What several commands take: the format of their answer, whose details to ask, patterns of groups, folders of logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")  # as click has it


def format_option(a_line: str, shown: str = "a table") -> Callable[[Command], Command]:
    """Return the option `--format` of a command whose JSON lines hold one of `a_line` each."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["auto", "table", "json"]),
        default="auto",
        show_default=True,
        help=f"auto: {shown} on a terminal, JSON (one {a_line} per line) elsewhere.",
    )


def author_option() -> Callable[[Command], Command]:
    """Return the option `--author` of a command that others will ask about."""
    return click.option(
        "--author", envvar="USER", required=True, help="Who does this; without it, who is logged in ($USER)."
    )


def details_option() -> Callable[[Command], Command]:
    """Return the option `--details` of a command that asks a live cluster."""
    return click.option(
        "--details",
        type=click.Choice(["all", "suspects"]),
        default="all",
        show_default=True,
        help="Whose details are asked: of all groups and clients, or, on a large cluster, of those that lag.",
    )


class Moment(click.ParamType["datetime"]):
    """A moment with its time zone, as ISO 8601 has it."""

    name = "ISO 8601 moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Fail with an example for everything else, a moment without a zone too."""
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no moment; write for example 2026-11-22T18:00Z", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no time zone; write {value}Z for UTC", param, ctx)
        return moment.astimezone(UTC)


class Pattern(click.ParamType["re.Pattern[str]"]):
    """A regular expression."""

    name = "regular expression"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        """Fail with the reason for everything that is none."""
        try:
            return re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r} is no regular expression: {error}", param, ctx)


class LogFolderOption(click.ParamType["tuple[str | None, Path]"]):
    """`DIR`, or `NAME=DIR` where the path does not tell whose logs they are."""

    name = "[NAME=]DIR"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, Path]:
        """Return (name or None, folder); fail for a folder that is not there."""
        name, equals, folder = str(value).rpartition("=")
        path = Path(folder)
        if not path.is_dir():
            self.fail(f"{folder}: is not a folder; write DIR, or NAME=DIR such as broker-a-0=/srv/logs", param, ctx)
        return (name or None) if equals else None, path


def concerns(consumer_group: str | None, pattern: re.Pattern[str] | None) -> bool:
    """Whether something about a group is wanted; what is about the whole cluster always is."""
    return pattern is None or consumer_group is None or pattern.search(consumer_group) is not None
