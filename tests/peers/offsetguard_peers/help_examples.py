"""The examples that `--help` teaches, as lines for a shell, with what a reader has instead of what stands there."""

import re
from collections.abc import Iterator, Mapping

import click

from offsetguard.cli.main import offsetguard

_EXAMPLES = re.compile(r"^ *Examples?:\n(.*?)(?:\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"(?<=\S) {2,}(?![|{]).*$")
_STARTS = ("offsetguard ", "echo ", "jq ")


def examples() -> dict[str, list[str]]:
    """Return the examples of every command by its name; one that stands in several places once."""
    return {name: list(dict.fromkeys(_of(command))) for name, command in _commands(offsetguard, "")}


def filled_in(example: str, instead: Mapping[str, str]) -> str:
    """Return an example with the reader's own names; `instead`: by regular expression."""
    for shown, ours in instead.items():
        example = re.sub(shown, lambda _, ours=ours: ours, example)  # type: ignore[misc]
    return example


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        one = command.get_command(context, name)
        assert one is not None
        yield from _commands(one, f"{path} {name}".strip())


def _of(command: click.Command) -> Iterator[str]:
    for block in _EXAMPLES.findall(command.help or ""):
        lines = [line for line in block.splitlines() if line.strip()]
        example = ""
        for line in lines:
            if line.strip().startswith(_STARTS) and example and not example.endswith("|"):
                yield example
                example = ""
            text = _COMMENT.sub("", line.strip())
            example = f"{example} {text}" if example else text
        if example:
            yield example
