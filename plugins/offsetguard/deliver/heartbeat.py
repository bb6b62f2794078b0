"""Tells a place outside that all is well, again and again: when it hears nothing, it raises the alarm.

Monitoring on this host can watch a file instead, which is always written: it is old when nothing is delivered any more.

As healthchecks.io and its like have it: GET of the address means well, POST to `<address>/fail` means trouble, with the
reason as text. The address is a secret (whoever has it can keep the alarm quiet): it is in no error and no log.
Source: https://healthchecks.io/docs/http_api/
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from offsetguard.config.disk import replace_text, why_unwritten

REASON_BYTES = 10_000  # healthchecks.io keeps the first 100 kB, others less
_TIMEOUT_S = 10.0


def beat(address: str, reasons: Sequence[str]) -> str | None:
    """Tell the outside that all is well, or what is not; returns why that was not heard, None when it was."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "the heartbeat has no address of the form https://host/..."
    path = parts.path.rstrip("/") + ("/fail" if reasons else "")
    body = "\n".join(reasons).encode("utf-8", "replace")[:REASON_BYTES] if reasons else None
    url = urlunsplit(parts._replace(path=path))
    request = urllib.request.Request(url, body, {"Content-Type": "text/plain"})  # noqa: S310 http or https only
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 likewise
            answer.read(1_000)
    except urllib.error.HTTPError as error:
        error.close()
        return f"the heartbeat was answered with HTTP {error.code}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None)
        return f"the heartbeat was not heard: {type(error).__name__ if why is None else why}"
    return None


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
