"""One state file of a broker and its .bak: which of them is whole, and why the other one is not.

A broker that dies while it writes leaves a torn, empty or missing file. 4.x: the new text goes to X.tmp, X is copied to
X.bak and deleted, X.tmp is renamed. 5.1+: X is copied to X.bak and overwritten in place. 5.4+: X is moved to X.bak and
written anew, so that X.bak is the newest state there is while X is torn. Brokers themselves fall back to X.bak, and so
do we; what was wrong with X is a note with its bytes, never silence.
Source: ConfigManager and MixAll.string2File, 4.9.8 and 5.3.3; apache/rocketmq#9706 (5.4.0).

A file that was edited by hand is read as fastjson reads it, before its .bak: comments, commas before a closing bracket,
single quotes, names without quotes, and offsets in quotes. A broker that starts with such a file has its offsets. Two
linear scans that walk over whole strings; nothing runs back.
Source: JSONLexerBase of fastjson 1 (Feature.AllowSingleQuotes, AllowUnQuotedFieldNames, skipComment); apache/rocketmq
4.x. Which of these fastjson2 accepts (5.x), was not tried.
"""

import gzip
import io
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from offsetguard.sources.bundle.replay import Damage
from offsetguard.sources.rocketmq.json_fields import MalformedBytes

_STRING = r'"(?>(?:[^"\\]+|\\.)*)(?:"|\Z)'
# atomic groups and not possessive ones: CPython's issue 106052
_FOREIGN = re.compile(
    rf"(?P<string>{_STRING})"
    r"|(?P<comment>//[^\n]*+|/\*(?>(?:[^*]+|\*(?!/))*)(?:\*/|\Z))"
    r"|'(?P<single>(?>(?:[^'\\]+|\\.)*))'"
    r"|(?P<name>[A-Za-z_$%][^\s\"',:{}\[\]/]*+)(?=\s*+:)",
    re.DOTALL,
)
_LOOSE = re.compile(
    rf'(?P<number>(?:"[0-9]++"|(?<=[{{,\s])[0-9]++)\s*+:\s*+"(?=-?[0-9]++"))(?P<value>-?[0-9]++)"'
    rf"|(?P<string>{_STRING})|(?P<comma>,(?=\s*+[}}\]]))",
    re.DOTALL,
)
_QUOTE = re.compile(r'\\.|"', re.DOTALL)


def as_strict(text: bytes) -> bytes:
    """Return UTF-8 text as strict as brokers write it; the same where nothing of it is loose."""
    quoted = _FOREIGN.sub(_quoted, text.decode())
    return _LOOSE.sub(_tight, quoted).encode()


def _quoted(match: re.Match[str]) -> str:
    if match.lastgroup == "string":
        return match[0]
    if match.lastgroup == "comment":
        return " "
    if match.lastgroup == "name":
        return f'"{match[0]}"'
    return f'"{_QUOTE.sub(_escaped, match["single"])}"'


def _escaped(match: re.Match[str]) -> str:
    return {'"': '\\"', "\\'": "'"}.get(match[0], match[0])


def _tight(match: re.Match[str]) -> str:
    if match.lastgroup == "value":
        return match["number"][:-1] + match["value"]
    return match[0] if match.lastgroup == "string" else ""


MAX_FILE_BYTES = 256 * 1024 * 1024  # unpacked; 113,000 offsets are 2 MB
GZIP_MAGIC = b"\x1f\x8b"
_EDITED = "was edited by hand and is no strict JSON; it is read as fastjson reads it, which this broker's may refuse"
_SUFFIXES = ("", ".gz", ".bak", ".bak.gz")  # as brokers fall back; .gz is what operators make of them


_MOST_PACKED = 1_032  # bytes that deflate packs into one


@dataclass(frozen=True, slots=True)
class StateFile:
    """A whole state file: its text as UTF-8, and when the broker wrote it."""

    path: Path
    text: bytes
    written_at: datetime


class _NotWhole(Exception):
    def __init__(self, reason: str, body: bytes = b"") -> None:
        super().__init__(reason)
        self.body = body


@dataclass(frozen=True, slots=True)
class Reading:
    """What became of a state file: `whole` is None when neither it nor its .bak can be used."""

    whole: StateFile | None
    problems: tuple[Damage, ...]  # in the order of trying


def read_state_file(
    folder: Path, name: str, check: Callable[[bytes], object], max_bytes: int = MAX_FILE_BYTES
) -> Reading:
    """Read `name` of a config folder, or its .bak; `check` decodes the text and raises MalformedBytes.

    Never raises for what is in the files; a file that exists and cannot be opened is a problem like the others.
    """
    problems: list[Damage] = []
    for suffix in _SUFFIXES:
        path = folder / f"{name}{suffix}"
        try:
            opened = _open(path, max_bytes)
            if opened is None:
                continue
            raw, written_at = opened
            text, remark = _as_utf8(_unpacked(raw, max_bytes))
            text, edited = _checked(check, text, raw)
            remark = " and ".join(filter(None, (remark, edited)))
        except _NotWhole as error:
            problems.append(Damage(str(path), str(error), body=error.body))
            continue
        if remark:
            problems.append(Damage(str(path), remark))
        return Reading(StateFile(path, text, written_at), _with_substitute(folder / name, path, problems))
    return Reading(None, _with_substitute(folder / name, None, problems))


def _with_substitute(wanted: Path, used: Path | None, problems: list[Damage]) -> tuple[Damage, ...]:
    """Return the problems, each with what is used instead; a missing file is one when only its .bak is there."""
    if used is not None and ".bak" in used.suffixes and not problems:
        problems = [Damage(str(wanted), "is missing")]
    instead = f"; {used.name} is used instead" if used else "; nothing is left to be used instead"
    return tuple(one if one.source == str(used) else replace(one, reason=f"{one.reason}{instead}") for one in problems)


def _open(path: Path, max_bytes: int) -> tuple[bytes, datetime] | None:
    """Return a file's bytes and when it was written; None when there is no such file."""
    try:
        if not path.is_file():  # a pipe must not hold us
            if path.exists():
                raise _NotWhole("is not a file")
            return None
        found = path.stat()
        with path.open("rb") as opened:
            raw = opened.read(min(found.st_size, max_bytes) + 1)  # Python makes room for as many bytes as are asked for
    except OSError as error:
        raise _NotWhole(f"cannot be read ({error.strerror or error})") from error
    if len(raw) > max_bytes:
        raise _NotWhole(f"is larger than {max_bytes} bytes")
    return raw, datetime.fromtimestamp(max(found.st_mtime, 0), UTC)


def _unpacked(raw: bytes, max_bytes: int) -> bytes:
    if not raw.startswith(GZIP_MAGIC):
        return raw
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
            text = packed.read(min(len(raw) * _MOST_PACKED, max_bytes) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _NotWhole(f"is compressed and cut off or damaged ({error})", raw) from error
    if len(text) > max_bytes:
        raise _NotWhole(f"is larger than {max_bytes} bytes when unpacked")
    return text


def _as_utf8(text: bytes) -> tuple[bytes, str]:
    """Return the text as UTF-8, and a remark when it was not: 4.x brokers write the charset of their platform."""
    remark = ""
    if text.startswith(BOM_UTF8):  # Windows editors write it, and fastjson passes over it
        text, remark = text.removeprefix(BOM_UTF8), "begins with a byte order mark: an editor wrote it"
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        try:
            return text.decode("gb18030").encode(), f"is not UTF-8 from byte {error.start} on; read as GB18030"
        except UnicodeDecodeError:
            raise _NotWhole(f"is neither UTF-8 nor GB18030 (byte {error.start})", text) from error
    return text, remark


def _checked(check: Callable[[bytes], object], text: bytes, raw: bytes) -> tuple[bytes, str]:
    """Return the text as brokers write it, and a remark when somebody else wrote it; raises _NotWhole."""
    if not text.strip():
        raise _NotWhole("is empty")
    if not text.strip(b"\0"):
        raise _NotWhole(f"holds nothing but {len(text)} zero bytes, as after a power cut")
    try:
        check(text)
    except MalformedBytes as error:
        strict = as_strict(text)
        try:
            check(strict)
        except MalformedBytes:
            raise _NotWhole(f"is torn or damaged ({error})", raw) from error
        return strict, _EDITED
    return text, ""
