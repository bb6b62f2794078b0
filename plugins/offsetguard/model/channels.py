"""What channels say of themselves, each at the top of its file in `deliver/channels/`.

It is read there without importing the file, as commands are found by their first line: whoever reads the
configuration needs no client of HTTP or SMTP, and no layer looks up.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Declared:
    """A channel as the configuration, the outbox and pages know it. Its arguments in a channel's file are literals."""

    name: str  # in the outbox; also that of its file
    receivers: str  # the field of a team, and of a route, that lists receivers
    meaning: str  # of that field
    title: str  # what people call it
    title_zh: str
    receiver: str = "ConnectionId"  # what one looks like: a type of `config.fields`
    note: str | None = None  # what somebody who uses it should know
    digests: bool = False  # takes one message instead of many
    daily_reports: bool = False
    mentions: str | None = None  # what those are whom it calls, in `<receivers>_mentions` of a team; None: it cannot

    @property
    def mentions_list(self) -> str:
        """The field of a team that lists them."""
        return f"{self.receivers}_mentions"


def _declared() -> Iterator[Declared]:
    folder = files("offsetguard").joinpath("deliver", "channels")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if not file.name.endswith(".py"):
            continue
        for line in ast.parse(file.read_text("utf-8")).body:
            match line:
                case ast.Assign(value=ast.Call(func=ast.Name(id="Declared"), keywords=said)):
                    yield Declared(**{one.arg: ast.literal_eval(one.value) for one in said if one.arg is not None})


DECLARED = {one.name: one for one in _declared()}
"""By their names; in the order of their files people are told."""
RECEIVER_LISTS = {one.receivers: one.name for one in DECLARED.values()}
"""Fields of a team, and of a route, that hold receivers: the channel of each."""
