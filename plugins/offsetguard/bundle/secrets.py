"""Keeps secrets out of bundles: passwords and keys that brokers tell in their settings, and that logs repeat.

GET_BROKER_CONFIG answers with every line of broker.conf, and 5.x puts logins there (`initAuthenticationUser`,
`innerClientAuthenticationCredentials`, passwords of TLS keys). Names of settings stay, values do not.
Request fields of a login (AccessKey, Signature, SecurityToken) never reach a bundle: the recorder sees requests
before they are signed, and leaves them out if they are there all the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from offsetguard.rocketmq.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Mapping

LEFT_OUT = "***"
_LOGIN_FIELDS = frozenset({"AccessKey", "Signature", "SecurityToken"})
_TELLING = rb"(?:secret|passw(?:or)?d|credential|access_?key|signature|securitytoken|initauthenticationuser)"
_NAME = re.compile(rb"(?i)" + _TELLING)
_IN_TEXT = re.compile(  # bounded: log lines may be long, and hostile
    rb"(?i)(" + _TELLING + rb"[a-z_.]{0,40}\\?\"?\s?[=:]\s?)(\{[^}\r\n]*\}|[^\s,;\]})]+)"
)


def without_secrets(code: int, body: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return a response body to be kept, and the names of the settings whose values were left out of it."""
    if code != RequestCode.GET_BROKER_CONFIG:
        return body, ()
    lines = body.split(b"\n")
    names: list[str] = []
    for number, line in enumerate(lines):
        name, _, value = line.partition(b"=")
        if value.strip() and _NAME.search(name):  # an empty password is no secret, and tells something
            lines[number] = name + b"=" + LEFT_OUT.encode()
            names.append(name.decode("utf-8", "replace").strip())
    return b"\n".join(lines), tuple(names)


def log_without_secrets(lines: bytes) -> bytes:
    """Return log lines with the values of secret-looking names left out; everything else stays as it is."""
    return _IN_TEXT.sub(rb"\1" + LEFT_OUT.encode(), lines)


def fields_without_login(ext_fields: Mapping[str, str]) -> dict[str, str]:
    """Return request fields without those of a login."""
    return {name: value for name, value in ext_fields.items() if name not in _LOGIN_FIELDS}
