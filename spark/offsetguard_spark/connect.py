"""Spark Connect addresses, with what PySpark's client would do in silence said aloud.

With a token and without `use_ssl`, PySpark (4.1.3, `DefaultChannelBuilder`) speaks plain gRPC only to a host that is
written `localhost`; to any other it speaks TLS. And a server that does not answer, or answers something else, is asked
again for more than ten minutes without a word. So the address is put right, and one connection is tried, beforehand.
Where somebody wrote `use_ssl=false`, the network between is his own (containers of one host): the token goes to any
host as the header that Spark's server looks for (`PreSharedKeyAuthenticationInterceptor`), without TLS.
"""

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from offsetguard.model.errors import OffsetGuardError

DEFAULT_PORT = 15002
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of Spark's variable, on both sides
_TIMEOUT_S = 10.0
_GRPC_DETAILS = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)


class SparkServerUnusable(OffsetGuardError):
    """No Spark Connect server can be used at the address; the text names it (without token) and what to do."""


@dataclass(frozen=True, slots=True)
class ConnectAddress:
    """Where a Spark Connect server is, and what a client says to it."""

    host: str
    port: int
    tls: bool
    parameters: str = field(repr=False)  # what follows the host; it may hold a token
    trusts_network: bool = False  # the token is a header among the parameters

    @classmethod
    def parse(cls, remote: str, environment: Mapping[str, str]) -> Self:
        """Read `sc://host[:port][/;token=...;use_ssl=true;...]`; raises SparkServerUnusable for anything else."""
        try:
            parts = urlsplit(remote)
            port = parts.port or DEFAULT_PORT
        except ValueError:
            parts, port = SplitResult("", "", "", "", ""), DEFAULT_PORT
        if parts.scheme != "sc" or not parts.hostname:
            raise SparkServerUnusable("SPARK_REMOTE is not an address of the form sc://host:port")
        settings = dict(part.split("=", 1) for part in parts.path.lstrip("/").split(";") if "=" in part)
        token = unquote(settings.get("token", "")) or environment.get(TOKEN_VARIABLE)
        use_ssl = settings.get("use_ssl", "").lower()
        host = parts.hostname
        if token and use_ssl != "true" and _is_loopback(host):
            host = "localhost"
        if token and use_ssl == "false" and host != "localhost":
            others = "".join(f";{name}={value}" for name, value in settings.items() if name != "token")
            header = f";authorization={quote(f'Bearer {token}', safe='')}"
            return cls(host, port, tls=False, parameters=f"/{others}{header}", trusts_network=True)
        return cls(host, port, use_ssl == "true" or (bool(token) and host != "localhost"), parts.path)

    @property
    def remote(self) -> str:
        """The address for PySpark."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"sc://{host}:{self.port}{self.parameters}"

    def check(self) -> None:
        """Connect once, within ten seconds; raises SparkServerUnusable naming host, port and what is wrong."""
        where = f"Spark Connect server {self.host}:{self.port}"
        try:
            with socket.create_connection((self.host, self.port), _TIMEOUT_S) as connection:
                if self.tls:
                    _shake_hands(connection, self.host)
        except ssl.SSLError as error:
            raise SparkServerUnusable(
                f"{where} does not speak TLS ({error.reason}), and a token is sent to another machine only with TLS: "
                "put a proxy that ends TLS before the server, or run tasks where the server is and name it localhost; "
                'where nobody can listen in between, the extra {"use_ssl": false} of the connection will do'
            ) from error
        except OSError as error:
            raise SparkServerUnusable(
                f"{where} does not answer ({error.strerror or error}): start it (`offsetguard spark-server start`), or "
                "correct the Airflow connection `spark_default`"
            ) from error


def telling_line(text: str) -> str:
    """Return what an error of Spark says, without its stack trace; of one of gRPC the line that says something."""
    if details := _GRPC_DETAILS.search(text):
        return details.group(1)
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shake_hands(connection: socket.socket, host: str) -> None:
    """Find out whether TLS is spoken at all; the certificate is checked by gRPC, with its own roots."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(connection, server_hostname=host):
        pass
