"""Requests to a test cluster over a connection of their own: those of the product, and those that change something.

The product never sends the changing codes, so they are declared here. Frames, headers and signatures are the product's
own. Source of the codes: `RequestCode` of apache/rocketmq 4.9.8 and 5.3.3.
"""

import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

from offsetguard.sources.rocketmq.codes import refusal
from offsetguard.sources.rocketmq.connection import Frame, FrameReader, encode_frame
from offsetguard.sources.rocketmq.header import (
    Credentials,
    RemotingCommand,
    decode_header,
    encode_header,
    signed_ext_fields,
)
from offsetguard.sources.rocketmq.requests import Request
from offsetguard_peers.rocketmq import security

AnswerT = TypeVar("AnswerT")
TIMEOUT_S = 60.0  # some milliseconds on an idle machine


class ChangingCode(IntEnum):
    """Request codes that change a broker or name server."""

    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    UPDATE_BROKER_CONFIG = 25
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_EXPIRED_COMMITLOG = 329
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353
    SET_MESSAGE_REQUEST_MODE = 401
    AUTH_CREATE_USER = 3001
    AUTH_CREATE_ACL = 3006
    AUTH_UPDATE_ACL = 3007
    POP_MESSAGE = 200050


def send(
    address: str,
    code: int,
    ext_fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
) -> RemotingCommand:
    """Send one request over a connection of its own; returns the answer whatever its code."""
    fields = dict(ext_fields or {})
    if credentials is not None:
        fields = signed_ext_fields(fields, body, credentials)
    header = encode_header(RemotingCommand(code=code, opaque=1, ext_fields=fields))
    host, _, port = address.rpartition(":")
    with _connected(host, int(port), tls) as connection:
        connection.sendall(encode_frame(Frame(0, header, body)))
        frames = FrameReader()
        while (frame := frames.next_frame()) is None:
            received = connection.recv(65536)
            if not received:
                msg = f"{address}: closed without an answer to request code {code}"
                raise ConnectionError(msg)
            frames.feed(received)
    return decode_header(frame.serialize_type, frame.header, frame.body)


def ask(
    address: str,
    request: Request[AnswerT],
    *,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
) -> AnswerT:
    """Send one of the product's own requests, without asyncio; raises a BrokerRefused."""
    answer = send(address, request.code, request.ext_fields(), credentials=credentials, tls=tls)
    if answer.code not in request.success_codes:
        raise refusal(address, answer.code, answer.remark)
    return request.decode(answer)


def _connected(host: str, port: int, tls: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=TIMEOUT_S)
    return tls.wrap_socket(connection, server_hostname=host) if tls else connection


def change(
    address: str,
    code: ChangingCode,
    ext_fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Send a changing request; raises a BrokerRefused with the broker's code and remark."""
    fields = {name: str(value) for name, value in (ext_fields or {}).items()}
    answer = send(address, code, fields, body, credentials=credentials, tls=tls)
    if answer.code != 0:
        raise refusal(address, answer.code, answer.remark)


def create_account(
    address: str, account: Credentials, grants: Mapping[str, Sequence[str]], *, tls: ssl.SSLContext | None
) -> None:
    """Create an account on a 5.x broker, as the administrator; each broker, also a slave, has its own."""
    user = json.dumps(security.user(account)).encode()
    named = {"username": account.access_key}
    change(address, ChangingCode.AUTH_CREATE_USER, named, user, credentials=security.ADMIN, tls=tls)
    rules = json.dumps(security.grants_of(account.access_key, grants)).encode()
    subject = {"subject": security.subject(account.access_key)}
    change(address, ChangingCode.AUTH_CREATE_ACL, subject, rules, credentials=security.ADMIN, tls=tls)
