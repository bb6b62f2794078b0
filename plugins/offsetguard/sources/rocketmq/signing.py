"""Signing of requests for brokers that ask for a login: ACL of 4.x and remoting authentication of 5.x alike.

Source: `AclClientRPCHook` and `AclUtils.combineRequestContent` / `AclSigner` (apache/rocketmq 4.9.8, 5.3.3):
the values of all ext fields except `Signature`, in the order of their names, then the body, HMAC-SHA1, base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credentials:
    """A login; in 5.x the access key is the user name and the secret key the password. The secrets are not shown."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signed_ext_fields(ext_fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return the ext fields with AccessKey, SecurityToken (if there is one) and Signature added."""
    fields = {name: value for name, value in ext_fields.items() if name != "Signature"}
    fields["AccessKey"] = credentials.access_key
    if credentials.security_token:
        fields["SecurityToken"] = credentials.security_token
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1).digest()
    return {**fields, "Signature": base64.b64encode(digest).decode("ascii")}
