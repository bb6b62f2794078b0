"""An HTTP server, on 127.0.0.1 by default, that serves in a thread for as long as its context lasts."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class Quiet:
    """Of a handler of requests: says nothing of them on stderr."""

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type] # typeshed: one of its sockets


class HttpPeer:
    """What all our HTTP servers do alike; `handler` answers, one thread per request."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], *, port: int = 0, host: str = "127.0.0.1") -> None:
        """Listen at once (on a free port by default); entering the context serves."""
        self._http = _Server((host, port), handler)
        name = f"{type(self).__name__} {self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name=name, daemon=True)

    @property
    def url(self) -> str:
        """Address of its root, for this machine."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/"

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and close the port."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
