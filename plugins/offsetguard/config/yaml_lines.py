"""YAML as plain values together with the line of each of them, and every problem of the text itself.

The values are what PyYAML's safe loader makes of them; keys are kept as text. Not accepted: a key that stands twice
(YAML would silently keep the last), a value that contains itself, and documents that unfold to more than MAX_NODES.
"""

from dataclasses import dataclass, field
from typing import Any

import yaml

MAX_NODES = 100_000
Path = tuple[str | int, ...]


@dataclass
class LinedDocument:
    """A YAML document; `lines` maps the path of each key or list entry to its line, from 1."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[tuple[Path, int, str]] = field(default_factory=list)  # (path, line, what is wrong)

    def line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest thing around it that stands in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_lined_yaml(text: str) -> LinedDocument:
    """Read one YAML document; raises yaml.YAMLError (with a mark where known) when the text is not YAML."""
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        document = LinedDocument()
        if root is not None:
            document.value = _Reader(loader, document).read(root, (), ())
        return document
    finally:
        loader.dispose()


class _Reader:
    def __init__(self, loader: yaml.SafeLoader, document: LinedDocument) -> None:
        self._loader = loader
        self._document = document
        self._nodes_read = 0

    def read(self, node: yaml.Node, path: Path, around: tuple[int, ...]) -> Any:
        self._nodes_read += 1
        if self._nodes_read > MAX_NODES:
            raise yaml.YAMLError(f"unfolds to more than {MAX_NODES:,} values")
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in around:
            self._document.problems.append((path, self._document.line(path), "contains itself"))
            return None
        around = (*around, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path, around)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(entry, (*path, position), around) for position, entry in enumerate(node.value)]
        try:
            return self._loader.construct_object(node)
        # Unknown tags, dates such as 2026-13-45; and what PyYAML raises of `!!bool maybe`, `!!int ''`, `!!timestamp x`
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
            said = (str(error).splitlines() or [""])[0] if isinstance(error, yaml.YAMLError | ValueError) else node.tag
            self._complain(path, node, f"cannot be read ({said}); put it in quotes")
            return None

    def _read_mapping(self, node: yaml.MappingNode, path: Path, around: tuple[int, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain(path, key_node, "a key must be text")
                continue
            key = str(key_node.value)  # as written: `on` and `1` are names here, not true and a number
            if key_node.tag == "tag:yaml.org,2002:merge":
                self._complain((*path, key), key_node, "merging (<<) is not supported; write the values out")
            elif key in values:
                first = self._document.lines[(*path, key)]
                self._complain((*path, key), key_node, f"stands here twice, first in line {first}; keep one of them")
            else:
                self._document.lines[(*path, key)] = key_node.start_mark.line + 1
                values[key] = self.read(value_node, (*path, key), around)
        return values

    def _complain(self, path: Path, node: yaml.Node, what: str) -> None:
        self._document.problems.append((path, node.start_mark.line + 1, what))
