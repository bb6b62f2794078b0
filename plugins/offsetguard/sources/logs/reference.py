"""docs/logs.md, made of the patterns themselves: `python -m offsetguard.sources.logs.reference > docs/logs.md`."""

import sys
from collections.abc import Iterator

from offsetguard.sources.logs.matching import PATTERNS
from offsetguard.sources.logs.pattern import Field, FieldType, LogKind, Part, Pattern
from offsetguard.sources.logs.records import LAYOUTS

_HEAD = """\
# Logs

What OffsetGuard reads in the logs of RocketMQ brokers and clients, 4.9 and 5.x. Made by `make docs` from
`plugins/offsetguard/sources/logs/`; edit there. The collector (`log_events`), Spark (backfills) and
`offsetguard parse-log` read lines by the same patterns, and give the same events.

**Where lines stand.** They are told apart by their text, never by the name of the file: since 5.1.1 the lines about
rebalance locks stand in filter.log, and with rocketmq-tools on its class path an application's client log is
tools_default.log.

**Times.** Brokers, and clients since 5.0, write GMT+8 wherever they run. Clients of 4.x write the zone of their host:
declare it (`time_zone` of the log source, `--time-zone`). Events carry UTC.

**Records.** A line that begins with a time stamp begins a record; other lines continue it. Of a record at most 64 KiB
are looked at. Bytes that are no UTF-8 are shown as `\\xNN`. A field that is absent, empty or no number of its type is
NULL.

**Routine** kinds are written for ever, also where nothing happens: `parse-log` shows them, rounds of the collector do
not land them.
"""


def reference() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *_layouts(), *_summary(), *(line for kind in LogKind for line in _section(kind))])


def _layouts() -> Iterator[str]:
    yield "## Layouts\n"
    yield "| layout | begins with | fields |"
    yield "|---|---|---|"
    for layout in LAYOUTS:
        yield f"| {layout.name} | `{layout.example}` | {', '.join(layout.fields)} |"
    example = "2026-11-21 14:27:02.100  WARN 8 --- [main] RocketmqClient   : "
    yield f"| an application's | `{example}`, or another prefix that ends with ` - `, `: ` or `]` | at, level |"
    yield ""


def _summary() -> Iterator[str]:
    yield "## Kinds\n"
    yield "| kind | log | means |"
    yield "|---|---|---|"
    for kind, forms in _kinds(PATTERNS).items():
        first = forms[0]
        logs = ", ".join(first.log_kinds) + (", routine" if first.routine else "")
        yield f"| [{kind}](#{kind}) | {logs} | {'; '.join(dict.fromkeys(form.meaning for form in forms))} |"
    yield ""


def _section(log_kind: LogKind) -> Iterator[str]:
    kinds = {kind: forms for kind, forms in _kinds(PATTERNS).items() if forms[0].log_kinds[0] is log_kind}
    yield f"## {log_kind}: lines in detail\n"
    for kind, forms in kinds.items():
        yield f"### {kind}\n"
        yield f"{_sentence('; '.join(dict.fromkeys(form.meaning for form in forms)))}\n"
        for form in forms:
            yield f"- {form.source}: {', '.join(_fields(form)) or 'no fields'}"
            yield f"\n  ```\n  {form.regex}\n  ```"
        yield ""


def _fields(form: Pattern) -> Iterator[str]:
    fields: list[Field | Part] = [*form.fields, *form.parts]
    for field in fields:
        yield f"`{field.name}`" + ("" if field.type is FieldType.TEXT else f" {field.type}")


def _kinds(patterns: tuple[Pattern, ...]) -> dict[str, list[Pattern]]:
    kinds: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        kinds.setdefault(pattern.kind, []).append(pattern)
    return kinds


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.stdout.write(reference())
