"""How a support bundle lies on disk: a stable interface, others write and read it too.

    index.jsonl                one request per line, in order: {"t": unix ms, "broker": "<broker name>-<broker id>" |
                               "namesrv", "code", "ext": {...} | null, "file": name in bodies/ | null,
                               "header": response header | null}
    bodies/<file>              the untouched response body
    logs/<broker>-<id>/*.log   broker logs
    clients/<name>/*.log       client logs
    state/<moment>/<broker>-<id>/*.json   copies of a broker's state files
    meta.json                  where OffsetGuard wrote the bundle: {"format": 1, "cluster", "recorded_by",
                               "log_time_zone", "details": "all" | "suspects", "rounds_ms": [start of each round],
                               "rounds_ended": how many of them were not cut off}

A request without a response has `"header": null` and `"error": {"kind", "message"}`. Several lines may name one file:
a body that has not changed is kept once. A `redacted` list names settings of a body whose values were left out because
they are secrets. Every other file in the folder is ignored.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from offsetguard.config import TimeZone
from offsetguard.model.errors import BundleError
from offsetguard.sources.rocketmq.connection import MAX_FRAME_BYTES, MAX_HEADER_BYTES

FORMAT = 1
INDEX, BODIES, LOGS, CLIENTS, META = "index.jsonl", "bodies", "logs", "clients", "meta.json"
NAME_SERVER = "namesrv"
MAX_LINE_BYTES = 2 * MAX_HEADER_BYTES  # a remark with a Java stack trace, escaped
MAX_BODY_BYTES = MAX_FRAME_BYTES
MAX_META_BYTES = 4 * 1024 * 1024
BROKERS_LOG_TIME_ZONE = "+08:00"  # brokers write GMT+8 wherever they run

_LATEST_MS = 253_370_764_800_000  # the year 9999 begins: what is reckoned from there stays a time
_LABEL = re.compile(r"(?s)(.{1,255})-(\d{1,18})")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_%][A-Za-z0-9_.%-]{0,99}")


class Meta(BaseModel):
    """What we say about a bundle of ours; fields of later versions are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    format: Literal[1] = 1
    cluster: str | None = None
    recorded_by: str | None = None
    log_time_zone: TimeZone = BROKERS_LOG_TIME_ZONE
    client_log_time_zone: TimeZone | None = None
    rounds_ms: tuple[Annotated[int, Field(gt=0, le=_LATEST_MS)], ...] = ()
    rounds_ended: Annotated[int, Field(ge=0)] = 0  # how many of them came to their end: the last one may be cut off
    details: Literal["all", "suspects"] = "all"  # whose pull offsets, rates and running info were asked
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One line of the index: a request, and the response's header or why there was none."""

    line: int  # from 1: the order of the answers
    t_ms: int  # when the answer came, unix ms
    broker: str  # "<broker name>-<broker id>" or NAME_SERVER
    code: int
    ext: Mapping[str, str]
    file: str | None
    header: Mapping[str, Any] | None
    error: tuple[str, str] | None = None  # (class of `offsetguard.model.errors`, message)

    @property
    def at(self) -> datetime:
        """When the answer came, UTC."""
        return datetime.fromtimestamp(self.t_ms / 1000, UTC)


def index_line(exchange: Exchange, redacted: tuple[str, ...] = ()) -> str:
    """Return the line of the index, without its line break."""
    document: dict[str, Any] = {
        "t": exchange.t_ms,
        "broker": exchange.broker,
        "code": exchange.code,
        "ext": dict(exchange.ext) or None,
        "file": exchange.file,
        "header": exchange.header,
    }
    if exchange.error is not None:
        document["error"] = {"kind": exchange.error[0], "message": exchange.error[1]}
    if redacted:
        document["redacted"] = list(redacted)
    return json.dumps(document)


def read_index_line(text: bytes, line: int, source: str) -> Exchange:
    """Read one line of the index; raises BundleError naming source, line and field."""
    where = f"{source}:{line}"
    document = _json_object(text, where)
    t_ms, code = document.get("t"), document.get("code")
    broker, file, header = document.get("broker"), document.get("file"), document.get("header")
    if not _is_integer(t_ms) or not 0 < t_ms <= _LATEST_MS:
        raise BundleError(f"{where}: field t: {_shown(t_ms)} is no time in unix ms")
    if not _is_integer(code) or not 0 <= code < 2**31:
        raise BundleError(f"{where}: field code: {_shown(code)} is no request code")
    if not isinstance(broker, str) or (broker != NAME_SERVER and broker_of(broker) is None):
        raise BundleError(f"{where}: field broker: {_shown(broker)} is neither <broker name>-<broker id> nor namesrv")
    if file is not None and not (isinstance(file, str) and is_file_name(file)):
        raise BundleError(f"{where}: field file: {_shown(file)} is not the name of a file in {BODIES}/")
    if header is not None and not isinstance(header, dict):
        raise BundleError(f"{where}: field header: {_shown(header)} is no response header")
    error = document.get("error")
    if error is not None and not isinstance(error, dict):
        raise BundleError(f"{where}: field error: {_shown(error)} is no object")
    return Exchange(
        line=line,
        t_ms=t_ms,
        broker=broker,
        code=code,
        ext=_texts(document.get("ext"), f"{where}: field ext"),
        file=file,
        header=header,
        error=_failure(header, error),
    )


def _failure(header: object, error: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Return (kind, message) of a request without a response; other recorders leave out why there was none."""
    if error is not None:
        return str(error.get("kind", "")), str(error.get("message", ""))
    return ("", "no response; the bundle does not say why") if header is None else None


def read_meta(folder: Path) -> Meta:
    """Read meta.json; a bundle that others wrote has none, then defaults apply. Raises BundleError naming the file."""
    file = folder / META
    if not os.path.lexists(file):
        return Meta()
    document = _json_object(_read_file(folder, META, MAX_META_BYTES), str(file))
    if _is_integer(document.get("format")) and document["format"] > FORMAT:
        raise BundleError(f"{file}: format {document['format']} is newer than this OffsetGuard reads; update it")
    try:
        return Meta.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise BundleError(f"{file}: field {field}: {first['msg']}") from error


@contextmanager
def opened_file(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file of a bundle, by its name below the folder, e.g. `bodies/1`; who reads it says how much at most.

    A bundle comes from others: a link in it may lead to any file of this machine, a pipe keeps a reader waiting without
    end, a device gives bytes without end. Raises BundleError for each of them, and for what cannot be read.
    """
    file = folder / name
    try:
        if os.path.realpath(file) != f"{os.path.realpath(folder)}/{name}":
            raise BundleError(f"{file}: is a link, or lies behind one; put the file itself in its place")
        if not file.is_file():
            missing = f"missing; {folder} is not a support bundle, or not whole"
            raise BundleError(f"{file}: {'is no file' if file.exists() else missing}")
        with file.open("rb") as opened:
            yield opened
    except OSError as error:
        raise BundleError(f"{file}: cannot be read: {error.strerror or error}") from error


def _read_file(folder: Path, name: str, most_bytes: int) -> bytes:
    with opened_file(folder, name) as opened:
        content = opened.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise BundleError(f"{folder / name}: larger than {most_bytes} bytes")
    return content


def read_body(folder: Path, exchange: Exchange) -> bytes:
    """Return the response body of an exchange, b"" where there was none; raises BundleError naming the file."""
    if exchange.file is None:
        return b""
    try:
        return _read_file(folder, f"{BODIES}/{exchange.file}", MAX_BODY_BYTES)
    except BundleError as error:
        raise BundleError(f"{error}; line {exchange.line} of {INDEX} names it") from error


def broker_of(label: str) -> tuple[str, int] | None:
    """Return broker name and broker id of `<broker name>-<broker id>`; None for anything else."""
    match = _LABEL.fullmatch(label)
    return (match[1], int(match[2])) if match else None


def other_peer(address: str) -> str:
    """Return the label of a peer that no name server lists, such as a proxy: its address as a broker's name."""
    return f"{address}-0"


def is_file_name(name: str) -> bool:
    """Whether a name stays in its folder on every system: no separators, no control characters, no dots alone."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= 255
        and name not in (".", "..")
        and not any(char in "/\\:\x7f" or char < " " or 0xD800 <= ord(char) < 0xE000 for char in name)
    )


def safe_name(text: str) -> str:
    """Return a file name for any text of the cluster's; a name that had to be changed carries a hash of the whole."""
    if _SAFE_NAME.fullmatch(text):
        return text
    kept = re.sub(r"[^A-Za-z0-9_%-]+", "_", text, flags=re.ASCII).strip("_-")[:60]
    return f"{kept or 'name'}~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def _json_object(text: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{where}: is not JSON: {str(error)[:200]}") from error
    if not isinstance(document, dict):
        raise BundleError(f"{where}: is not a JSON object")
    return document


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _texts(value: object, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BundleError(f"{where}: {_shown(value)} is no object")
    return {name: _text(scalar, f"{where}: {_shown(name)}") for name, scalar in value.items() if scalar is not None}


def _text(scalar: object, where: str) -> str:
    """Fields are texts on the wire; other recorders write numbers as numbers."""
    if isinstance(scalar, bool):
        return str(scalar).lower()
    if not isinstance(scalar, str | int):
        raise BundleError(f"{where}: {_shown(scalar)} is no text")
    return str(scalar)


def _shown(value: object) -> str:
    return ascii(value)[:100]
