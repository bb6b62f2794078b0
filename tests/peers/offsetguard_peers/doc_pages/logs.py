"""What docs/logs.md says of layouts and lines, from the patterns themselves."""

from collections.abc import Iterator

from offsetguard.sources.logs.matching import PATTERNS
from offsetguard.sources.logs.pattern import Field, FieldType, LogKind, Part, Pattern
from offsetguard.sources.logs.records import LAYOUTS


def made() -> str:
    """Return layouts, kinds and lines as Markdown."""
    return "\n".join([*_layouts(), *_summary(), *(line for kind in LogKind for line in _section(kind))])


def _layouts() -> Iterator[str]:
    yield "## Layouts\n"
    yield "| layout | begins with | fields |"
    yield "|---|---|---|"
    for layout in LAYOUTS:
        yield f"| {layout.name} | `{layout.example}` | {', '.join(layout.fields)} |"
    example = "2026-11-21 14:27:02.100  WARN 8 --- [main] RocketmqClient   : "
    yield f"| an application's | `{example}`, or another prefix that ends with ` - `, `: `, `]` or `\\|` | at, level |"
    yield '| JSON | `{"@timestamp":"2026-11-21T14:27:02.100Z","message":"..."`, or `timestamp`, `time` | at, level |'
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
