"""Tells a place outside that all is well, again and again: when it hears nothing, it raises the alarm.

As healthchecks.io and its like have it: GET of the address means well, POST to `<address>/fail` means trouble, with the
reason as text. The address is a secret (whoever has it can keep the alarm quiet): it is in no error, no log, no repr.
Source: https://healthchecks.io/docs/http_api/
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from offsetguard.model.errors import DeliveryError

REASON_BYTES = 10_000  # healthchecks.io keeps the first 100 kB, others less


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The place that listens; `timeout_s` bounds a call."""

    url: str = field(repr=False)
    timeout_s: float = 10.0

    def well(self) -> None:
        """Say that all is well. Raises DeliveryError when that was not heard."""
        self._ask("", None)

    def trouble(self, reason: str) -> None:
        """Say what is wrong. Raises DeliveryError when that was not heard."""
        self._ask("/fail", reason.encode("utf-8", "replace")[:REASON_BYTES])

    def _address(self, more: str) -> str:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DeliveryError("the heartbeat has no address of the form https://host/...", permanent=True)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + more))

    def _ask(self, more: str, body: bytes | None) -> None:
        address = self._address(more)
        request = urllib.request.Request(address, body, {"Content-Type": "text/plain"})  # noqa: S310 see _address
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:  # noqa: S310 http or https only
                answer.read(1_000)
        except urllib.error.HTTPError as error:
            error.close()
            raise DeliveryError(f"the heartbeat was answered with HTTP {error.code}", permanent=False) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", None)
            text = type(error).__name__ if why is None else str(why)
            raise DeliveryError(f"the heartbeat was not heard: {text}", permanent=False) from None


def beat(heartbeat: Heartbeat, reasons: Sequence[str]) -> str | None:
    """Tell the outside that all is well, or what is not; returns why that was not heard, None when it was."""
    try:
        if reasons:
            heartbeat.trouble("\n".join(reasons))
        else:
            heartbeat.well()
    except DeliveryError as error:
        return str(error)
    return None
