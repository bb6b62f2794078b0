"""A place that hears heartbeats: what was asked for, and what was said."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from offsetguard_peers.http_peer import HttpPeer, Quiet


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
