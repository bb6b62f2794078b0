"""One GET of one page over plain sockets: bounded in time, bytes and headers, and it follows nobody.

Goal: a page of an exporter, which may hang, drip, lie about its length or redirect, costs its time-out and no more.
Plan: HTTP/1.0, so that the answer ends with its Content-Length or with the connection and is never chunked.
Not done here: redirects, compression, proxies, logins.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import SplitResult, urlsplit

from offsetguard.model.errors import (
    BrokerRefused,
    ConnectionLost,
    PeerUnreachable,
    RequestTimedOut,
    UndecodableResponse,
)

MAX_PAGE_BYTES = 32 * 1024 * 1024
_MAX_HEAD_BYTES = 16 * 1024
_CHUNK_BYTES = 64 * 1024
_OK = 200
_STATUS_LINE = re.compile(r"HTTP/1\.[01] (?P<code>[0-9]{3})(?: (?P<reason>.*))?")
_PORTS = {"http": 80, "https": 443}


async def read_page(url: str, feed: Callable[[bytes], None], *, timeout_s: float) -> None:
    """GET a page and hand its bytes to `feed` as they come.

    Raises the RocketMQError that fits, naming `host:port`: refused for every status but 200, unreachable, timed out
    (`timeout_s` covers everything), connection lost, undecodable (no HTTP, longer than MAX_PAGE_BYTES).
    """
    parts = urlsplit(url)
    address = parts.netloc
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in _body(parts):
                feed(chunk)
    except TimeoutError as error:
        raise RequestTimedOut(address, f"GET {url}: not read within {timeout_s:g} s") from error
    except ConnectionRefusedError as error:
        raise PeerUnreachable(address, f"GET {url}: {error}") from error
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        raise ConnectionLost(address, f"GET {url}: closed before the end of the page") from error
    except OSError as error:  # no such host, no route, TLS
        raise PeerUnreachable(address, f"GET {url}: {error}") from error
    except (asyncio.LimitOverrunError, ValueError) as error:
        raise UndecodableResponse(address, f"GET {url}: {error}") from error


async def _body(parts: SplitResult) -> AsyncIterator[bytes]:
    context = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or _PORTS[parts.scheme]  # ValueError for a port that cannot be
    if not parts.hostname:
        raise ValueError("the address names no host")
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context, limit=_MAX_HEAD_BYTES)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = [f"GET {target} HTTP/1.0", f"Host: {parts.netloc}", "Accept: text/plain", "User-Agent: offsetguard"]
        writer.write("\r\n".join([*head, "", ""]).encode())
        await writer.drain()
        left = _length_of_body(await reader.readuntil(b"\r\n\r\n"), parts.netloc)
        size = 0
        while (left is None or left > 0) and (chunk := await reader.read(_CHUNK_BYTES)):
            size += len(chunk)
            if size > MAX_PAGE_BYTES:
                raise ValueError(f"the page is longer than {MAX_PAGE_BYTES} bytes")
            left = None if left is None else left - len(chunk)
            yield chunk
        if left is not None and left > 0:
            raise asyncio.IncompleteReadError(b"", left)
    finally:
        writer.close()


def _length_of_body(head: bytes, address: str) -> int | None:
    """Return Content-Length, None when the body ends with the connection; raises BrokerRefused, ValueError."""
    status_line, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    status = _STATUS_LINE.fullmatch(status_line)
    if status is None:
        raise ValueError(f"no HTTP answer: it starts with {status_line[:40]!r}")
    if int(status["code"]) != _OK:
        raise BrokerRefused(address, int(status["code"]), f"HTTP status {status['code']} {status['reason'] or ''}")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if fields.get("transfer-encoding", "identity") != "identity":
        raise ValueError(f"the page comes in {fields['transfer-encoding'][:40]!r} encoding, which was not asked for")
    length = fields.get("content-length")
    if length is None:
        return None
    if not (length.isascii() and length.isdecimal()) or len(length) > 12:
        raise ValueError(f"Content-Length is {length[:40]!r}")
    return int(length)
