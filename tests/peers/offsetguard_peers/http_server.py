"""HTTP servers that serve in a thread for as long as their context lasts, on 127.0.0.1 by default."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class HeartbeatListener(HttpPeer):
    """`heard`: (method, path, body) of each request, in order; all are answered with `status`."""

    def __init__(self, status: int = 200) -> None:
        """Listen on a free port; entering the context serves."""
        heard: list[tuple[str, str, str]] = []

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Keep and answer."""
                length = int(self.headers.get("Content-Length") or 0)
                heard.append((self.command, self.path, self.rfile.read(length).decode()))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"OK")

            do_POST = do_GET  # noqa: N815 the base class's name

        self.heard = heard
        super().__init__(Handler)

    @property
    def url(self) -> str:
        """The address, with a key that nobody may see."""
        return f"{super().url}ping/secret-key"
