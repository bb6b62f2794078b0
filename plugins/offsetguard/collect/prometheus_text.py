"""Reader for the text that Prometheus exporters serve: bytes in, samples of the wanted families out. No I/O.

Goal: figures of a few families out of a page of any size, whoever wrote it.
Plan: bytes are fed as they come and cut into lines; a line that does not begin with a wanted family is dropped before
it is looked at, so a page of tens of megabytes costs memory for one line. What is wanted and cannot be read is counted.
Not done here: `# TYPE` and `# HELP`, exemplars, quoted family names; no pattern that can run back far over what it has
read: characters are repeated possessively, groups plainly (`tests/unit/test_regular_expressions.py` says why), and no
two of their alternatives begin alike. Values that say nothing (NaN, infinite) or cannot be (below 0: a broker writes
-9.2E18 for the age of what does not exist) are None: an unknown figure, not a missing one.
Source: the text format of Prometheus, version 0.0.4; pages of live brokers 5.5.0 and 5.5.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

MAX_LINE_BYTES = 64 * 1024  # a name has at most 255 characters, a line a dozen labels

_LINE = re.compile(
    r"(?P<family>[a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+"
    r'(?:\{(?P<labels>(?:[^"}]++|"(?:[^"\\]++|\\.)*")*)\})?[ \t]*+'
    r"(?P<value>[^ \t]++)(?:[ \t]++[-+0-9.eE]++)?[ \t]*+",
    re.DOTALL,
)
_LABEL = re.compile(
    r'[ \t]*+(?P<name>[a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"(?P<value>(?:[^"\\]++|\\.)*)"[ \t]*+(?:,|\Z)', re.DOTALL
)
_NUMBER = re.compile(r"[-+]?+(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?|[-+]?+Inf|NaN", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page."""

    family: str
    labels: dict[str, str]
    value: float | None  # None: NaN, infinite or below 0


@dataclass(slots=True)
class SampleReader:
    """Takes the bytes of a page, gives the samples of `families`; `unreadable_count`: lines that were no samples."""

    families: Collection[str]
    unreadable_count: int = 0
    _rest: bytearray = field(default_factory=bytearray)
    _overlong: bool = False  # in the middle of a line that is too long to be kept

    def feed(self, data: bytes) -> Iterator[Sample]:
        """Yield the samples of the lines that these bytes complete."""
        *lines, rest = (bytes(self._rest) + data).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            yield from self._line(line)
        if len(self._rest) > MAX_LINE_BYTES:
            self._overlong = True
            self._rest.clear()

    def close(self) -> Iterator[Sample]:
        """Yield the sample of a last line without an end; a page that was cut off there counts it as unreadable."""
        yield from self._line(bytes(self._rest))
        self._rest.clear()

    def _line(self, line: bytes) -> Iterator[Sample]:
        if self._overlong or len(line) > MAX_LINE_BYTES:
            self._overlong = False
            self.unreadable_count += 1
            return
        text = line.decode(errors="replace").strip(" \t\r")
        if not text.startswith(tuple(self.families)):
            return
        match = _LINE.fullmatch(text)
        if match is not None and match["family"] not in self.families:
            return  # another family, whose name only begins like ours
        labels = _labels(match["labels"] or "") if match is not None else None
        number = _NUMBER.fullmatch(match["value"]) if match is not None else None
        if match is None or labels is None or number is None:
            self.unreadable_count += 1
            return
        yield Sample(match["family"], labels, _known(float(number[0])))


def _labels(text: str) -> dict[str, str] | None:
    """Return the labels of a line; None when they are none, or one of them stands there twice."""
    labels: dict[str, str] = {}
    position = 0
    while text[position:].strip(" \t"):
        match = _LABEL.match(text, position)
        if match is None or match["name"] in labels:
            return None
        labels[match["name"]] = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match["value"])
        position = match.end()
    return labels


def _known(value: float) -> float | None:
    return value if math.isfinite(value) and value >= 0 else None
