"""No secret of a cluster gets into a bundle, and nothing else is left out of it."""

from __future__ import annotations

import pytest

from offsetguard.sources.bundle.recording import fields_without_login, log_without_secrets, without_secrets
from offsetguard.sources.rocketmq.codes import RequestCode

CONFIG = (
    b"brokerName=broker-a\n"
    b'initAuthenticationUser={"username":"admin","password":"12345678"}\n'
    b'innerClientAuthenticationCredentials={"accessKey":"admin","secretKey":"12345678"}\n'
    b"tls.server.keyPassword=hunter2\n"
    b"accessMessageInMemoryMaxRatio=40\n"
    b"password=\n"
    b"aclEnable=true\r\n"
)


def test_values_of_secret_settings_are_left_out_and_their_names_told() -> None:
    body, names = without_secrets(RequestCode.GET_BROKER_CONFIG, CONFIG)
    assert names == ("initAuthenticationUser", "innerClientAuthenticationCredentials", "tls.server.keyPassword")
    assert b"12345678" not in body
    assert b"hunter2" not in body
    untouched = [line for line in CONFIG.split(b"\n") if not any(name.encode() in line for name in names)]
    assert [line for line in body.split(b"\n") if b"***" not in line] == untouched


def test_other_bodies_are_untouched() -> None:
    body = b'{"table":{"password":"not a setting"}}'
    assert without_secrets(RequestCode.GET_BROKER_RUNTIME_INFO, body) == (body, ())


def test_fields_of_a_login_are_left_out() -> None:
    fields = {"topic": "orders", "AccessKey": "a", "Signature": "b", "SecurityToken": "c"}
    assert fields_without_login(fields) == {"topic": "orders"}


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b"extFields={Signature=KUCvu3BSF4xb4d0TU=, topic=T1}", b"extFields={Signature=***, topic=T1}"),
        (b"AccessKey=rocketmq2, consumerGroup=G1", b"AccessKey=***, consumerGroup=G1"),
        (b'{"secretKey":"12345678","x":1}', b'{"secretKey":***,"x":1}'),
        (rb"{\"secretKey\":\"12345678\",\"x\":1}", rb"{\"secretKey\":***,\"x\":1}"),
        (b"- secretKey: 12345678", b"- secretKey: ***"),
        (b'initAuthenticationUser={"username":"admin","password":"1"}', b"initAuthenticationUser=***"),
        (b"the consumer's subscription not latest", b"the consumer's subscription not latest"),
        (b"2026-11-21 15:51:11 INFO signature check failed", b"2026-11-21 15:51:11 INFO signature check failed"),
    ],
)
def test_secrets_in_log_lines_are_left_out(line: bytes, kept: bytes) -> None:
    assert log_without_secrets(line) == kept


def test_a_long_line_of_secret_looking_words_is_read_in_no_time() -> None:
    """An expression that looks at every end for every beginning would take hours."""
    line = b"secret" * 200_000
    assert log_without_secrets(line) == line
