"""One HTTP request and its answer: a limit of time and of bytes for the whole of it, and no redirect is followed.

A library's time-out is one of each step, which lets a peer drip a byte at a time for ever; urllib, which slack_sdk
uses, follows a redirect with all headers, the token among them, and reads an answer without end into memory.
Errors name neither address nor header: both may be secrets.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from offsetguard.deliver.channels.channel import TookTooLong

# httpx tells of each request with its whole address, slack_sdk at DEBUG with all that it says: both stay in here
for _name in ("httpx", "httpcore", "slack_sdk"):
    logging.getLogger(_name).setLevel(logging.WARNING)

MOST_BYTES = 16 * 1024 * 1024  # a page of 200 messages with their blocks has 2 MiB at most


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, a redirect too."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    encoding: str

    @property
    def is_redirect(self) -> bool:
        """Whether it leads elsewhere."""
        return 300 <= self.status < 400


class NotAnswered(OSError):
    """Nobody was reached, or there was no whole answer; the text says why."""


class NoAddress(ValueError):
    """It is none of http or https, or has headers that cannot be sent."""


def ask(
    method: str,
    url: str,
    *,
    limit_s: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    most_bytes: int | None = MOST_BYTES,
    proxy: str | None = None,
    may_reach: Callable[[str], bool] | None = None,
) -> Answer:
    """Return the answer; raises TookTooLong, NotAnswered, NoAddress.

    `most_bytes`: of its body; None: who asks wants none of it. `proxy`: else what the environment says. `may_reach`:
    whether an IP address may be sent anything, asked once a connection is there: a name may lead elsewhere than a
    moment before. Behind a proxy it is not asked.
    """
    try:
        request = httpx.Request(method, url, content=body, headers=headers)
        if may_reach is not None:
            request.extensions["trace"] = _stops_before(may_reach, request.url.host)
        return asyncio.run(_ask(request, limit_s, most_bytes, proxy))
    except TimeoutError:
        raise TookTooLong(limit_s) from None
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, ValueError):
        raise NoAddress("no address of the form https://host/...") from None  # their texts have what was sent
    except httpx.ConnectError as error:
        raise NotAnswered(_innermost(error)) from None
    except httpx.HTTPError as error:
        raise NotAnswered(f"no whole answer: {type(error).__name__}") from None


async def _ask(request: httpx.Request, limit_s: float, most_bytes: int | None, proxy: str | None) -> Answer:
    request.headers["Accept-Encoding"] = "identity"  # what is counted is what is kept
    certificates = ssl.create_default_context()  # the machine's own, not those that httpx brings
    async with (
        asyncio.timeout(limit_s),
        httpx.AsyncClient(verify=certificates, timeout=None, proxy=proxy, follow_redirects=False) as client,  # noqa: S113
    ):
        response = await client.send(request, stream=True)
        body = bytearray()
        if most_bytes is not None:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > most_bytes:
                    raise NotAnswered(f"an answer of more than {most_bytes} bytes")
        return Answer(response.status_code, dict(response.headers), bytes(body), response.encoding or "utf-8")


def _stops_before(may_reach: Callable[[str], bool], host: str) -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    connects_to = ""

    async def trace(event: str, info: dict[str, Any]) -> None:
        nonlocal connects_to
        if event == "connection.connect_tcp.started":
            connects_to = info["host"]
        elif event == "connection.connect_tcp.complete" and connects_to == host:  # else a proxy
            address, *_ = info["return_value"].get_extra_info("server_addr")
            if not may_reach(address):
                await info["return_value"].aclose()
                raise NotAnswered("its name leads to an address that is not allowed")

    return trace


def _innermost(error: BaseException) -> str:
    """Return what the system said, which layers of libraries wrap: refused, no such host, TLS."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__
