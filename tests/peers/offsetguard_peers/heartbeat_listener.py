"""A place that hears heartbeats: what was asked for, and what was said."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class HeartbeatListener:
    """`heard`: (method, path, body) of each request, in order; all are answered with `status`."""

    def __init__(self, status: int = 200) -> None:
        """Listen on a free port; entering the context serves."""
        heard: list[tuple[str, str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Keep and answer."""
                length = int(self.headers.get("Content-Length") or 0)
                heard.append((self.command, self.path, self.rfile.read(length).decode()))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"OK")

            do_POST = do_GET  # noqa: N815 the base class's name

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 the base class's name
                """Say nothing on stderr."""

        self.heard = heard
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """The address, with a key that nobody may see."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/ping/secret-key"

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
