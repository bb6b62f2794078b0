"""Tells a place outside that all is well, again and again: when it hears nothing, it raises the alarm.

Monitoring on this host can watch a file instead, which is always written: it is old when nothing is delivered any more.

As healthchecks.io and its like have it: GET of the address means well, POST to `<address>/fail` means trouble, with the
reason as text. The address is a secret (whoever has it can keep the alarm quiet): it is in no error and no log.
Source: https://healthchecks.io/docs/http_api/
"""

import http
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from offsetguard.config.workspace import replace_text, why_unwritten
from offsetguard.deliver.one_request import NoAddress, ask

REASON_BYTES = 10_000  # healthchecks.io keeps the first 100 kB, others less
LIMIT_S = 10.0  # for the whole of it
_NO_ADDRESS = "the heartbeat has no address of the form https://host/..."


def beat(address: str, reasons: Sequence[str], *, limit_s: float = LIMIT_S) -> str | None:
    """Tell the outside that all is well, or what is not; returns why that was not heard, None when it was."""
    try:
        parts = urlsplit(address)
    except ValueError:  # its text has the address
        return _NO_ADDRESS
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return _NO_ADDRESS
    path = parts.path.rstrip("/") + ("/fail" if reasons else "")
    body = "\n".join(reasons).encode("utf-8", "replace")[:REASON_BYTES] if reasons else None
    url = urlunsplit(parts._replace(path=path))
    try:
        answer = ask(
            "GET" if body is None else "POST",
            url,
            body=body,
            headers={"Content-Type": "text/plain"},
            limit_s=limit_s,
            most_bytes=None,
        )
    except NoAddress:
        return _NO_ADDRESS
    except OSError as error:
        return f"the heartbeat was not heard: {error}"
    if answer.is_redirect:
        return f"the heartbeat was answered with HTTP {answer.status}, a redirect: name the address that it leads to"
    return (
        None if answer.status < http.HTTPStatus.BAD_REQUEST else f"the heartbeat was answered with HTTP {answer.status}"
    )


def write_down(file: Path, reasons: Sequence[str], at: datetime) -> str | None:
    """Replace the file by what is so now: {"at", "healthy", "troubles"}; returns why that failed, None when it did not.

    Who reads it sees the old text or the new one, never half of it.
    """
    document = {"at": at.isoformat(), "healthy": not reasons, "troubles": list(reasons)}
    try:
        replace_text(file, json.dumps(document) + "\n")
    except OSError as error:
        return why_unwritten(file, error)
    return None
