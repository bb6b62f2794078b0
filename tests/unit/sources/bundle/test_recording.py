"""Every exchange is written down as it comes: answers, refusals, silence; and a replay gives the same again.

No secret of a cluster gets into a bundle, and nothing else is left out of it.
"""

import asyncio
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.config.secret_values import open_block, text_without_secrets
from offsetguard.model.errors import BundleError, RequestTimedOut
from offsetguard.sources.bundle.layout import Exchange, Meta
from offsetguard.sources.bundle.reader import moments, open_bundle
from offsetguard.sources.bundle.recording import (
    BundleWriter,
    RecordingTransport,
    fields_without_login,
    without_secrets,
)
from offsetguard.sources.bundle.replay import BundleTransport
from offsetguard.sources.rocketmq import requests
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import ConsumerNotOnline, RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.transport import Transport
from offsetguard_peers.cases.running import examples
from offsetguard_peers.scripted.broker import ScriptedBroker, name_server_of, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer

RECORDED = Path(__file__).parents[3] / "data" / "bundles" / "4.9.8-healthy"
HOSTILE = "../../\u202eorders<b>\n=cmd()|" + "x" * 100


async def silent_about_itself(_: Conversation, request: RemotingCommand) -> bool:
    return request.code == RequestCode.GET_BROKER_RUNTIME_INFO


async def ask(transport: Transport, name_server: str, broker: str) -> list[object]:
    outcomes: list[object] = [await transport.call(name_server, requests.GetBrokerClusterInfo())]
    outcomes += await transport.call_many(broker, [requests.GetAllConsumerOffset()])
    outcomes += await transport.call_many(
        broker, [requests.GetTopicStatsInfo("orders"), requests.GetTopicStatsInfo(HOSTILE)]
    )
    outcomes += await transport.call_many(broker, [requests.GetConsumerConnectionList("nobody")])
    outcomes += await transport.call_many(broker, [requests.GetBrokerRuntimeInfo()])
    return outcomes


async def record(folder: Path) -> tuple[list[object], str, str]:
    broker = ScriptedBroker(
        "broker-a",
        topics={"orders": [(0, 10)], HOSTILE: [(3, 5)]},
        committed={("orders", "billing"): {0: 7}},
        trouble=silent_about_itself,
    )
    async with scripted_cluster(broker) as (name_server, addresses), RocketMQClient(timeout_ms=3_000) as client:
        with BundleWriter(folder, Meta(cluster="main", recorded_by="a test")) as bundle:
            bundle.begin_round(1)
            outcomes = await ask(RecordingTransport(client, bundle, [name_server]), name_server, addresses["broker-a"])
            bundle.end_round()
        return outcomes, name_server, addresses["broker-a"]


def test_a_replay_gives_what_was_recorded_and_the_bundle_stays_in_its_folder(tmp_path: Path) -> None:
    live, name_server, address = asyncio.run(record(tmp_path / "bundle"))
    bundle = open_bundle(tmp_path / "bundle")
    (moment,) = moments(bundle)
    replayed = asyncio.run(ask(BundleTransport(bundle, moment), name_server, address))
    assert [type(one) for one in live[-2:]] == [ConsumerNotOnline, RequestTimedOut]
    assert [str(one) for one in replayed] == [str(one) for one in live]

    lines = [json.loads(line) for line in (tmp_path / "bundle" / "index.jsonl").read_text().splitlines()]
    assert [(line["broker"], line["code"]) for line in lines] == [
        ("namesrv", 106),
        *[("broker-a-0", code) for code in (43, 202, 202, 203, 28)],
    ]
    assert lines[-2]["header"]["code"] == 206
    assert (lines[-1]["header"], lines[-1]["error"]["kind"]) == (None, "RequestTimedOut")
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    bodies = {f"bundle/bodies/{line['file']}" for line in lines if line["file"]}
    assert files == {"bundle/index.jsonl", "bundle/meta.json", *bodies}
    assert all(name.isascii() and name.isprintable() for name in files)


def test_a_body_that_has_not_changed_is_kept_once(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "bundle", Meta()) as writer:
        for topic in ("orders", "payments"):
            asked = Exchange(1, 1_795_247_480_000, "broker-a-0", 202, {"topic": topic}, None, None)
            writer.add_response(asked, RemotingCommand(0, 1, body=b"{}"))
    assert len(open_bundle(tmp_path / "bundle").exchanges) == 2
    assert len(list((tmp_path / "bundle" / "bodies").iterdir())) == 1


def test_brokers_behind_an_address_map_and_other_peers_have_names_of_their_own(tmp_path: Path) -> None:
    """The name server lists addresses that cannot be reached; a proxy it does not list at all."""

    async def record_mapped() -> tuple[str, str, str]:
        broker, proxy = ScriptedBroker("broker-a", topics={"orders": [(0, 10)]}), ScriptedBroker("proxy")
        unreachable = "192.0.2.1:10911"
        async with (
            ScriptedPeer(broker.play) as peer,
            ScriptedPeer(proxy.play) as other,
            ScriptedPeer(name_server_of({"broker-a": unreachable})) as name_server,
            RocketMQClient() as client,
        ):
            with BundleWriter(tmp_path / "bundle", Meta()) as bundle:
                transport = RecordingTransport(client, bundle, [name_server.address], {unreachable: peer.address})
                await transport.call(name_server.address, requests.GetBrokerClusterInfo())
                await transport.call(peer.address, requests.GetAllConsumerOffset())
                await transport.call(other.address, requests.GetAllConsumerOffset())
            return name_server.address, unreachable, other.address

    name_server, listed, proxy = asyncio.run(record_mapped())
    bundle = open_bundle(tmp_path / "bundle")
    assert [one.broker for one in bundle.exchanges] == ["namesrv", "broker-a-0", f"{proxy}-0"]
    transport = BundleTransport(bundle, moments(bundle)[0])
    assert [transport.label(address) for address in (name_server, listed, proxy)] == [
        "namesrv",
        "broker-a-0",
        f"{proxy}-0",
    ]


def test_a_folder_that_holds_anything_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BundleError, match="exists and is not an empty folder; name a new one"):
        BundleWriter(tmp_path, Meta())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


CONFIG = (
    b"brokerName=broker-a\n"
    b'initAuthenticationUser={"username":"admin","password":"12345678"}\n'
    b'innerClientAuthenticationCredentials={"accessKey":"admin","secretKey":"12345678"}\n'
    b"tls.server.keyPassword=hunter2\n"
    b"accessMessageInMemoryMaxRatio=40\n"
    b"password=\n"
    b"metricsGrpcExporterHeader=x-auth:abcdef123\n"
    b"rocksdb.pass=hunter2\n"
    b"namesrvAddr=http://u:hunter2@10.0.0.1:9876;token-host:9876\n"
    b"authorizationEnabled=false\n"
    b"aclEnable=true\r\n"
)


def test_values_of_secret_settings_are_left_out_and_their_names_told() -> None:
    body, names = without_secrets(RequestCode.GET_BROKER_CONFIG, CONFIG)
    assert names == (
        "initAuthenticationUser",
        "innerClientAuthenticationCredentials",
        "tls.server.keyPassword",
        "metricsGrpcExporterHeader",
        "rocksdb.pass",
        "namesrvAddr",
    )
    assert b"12345678" not in body
    assert b"hunter2" not in body
    assert b"abcdef123" not in body
    assert b"namesrvAddr=http://u:***@10.0.0.1:9876;token-host:9876" in body
    untouched = [line for line in CONFIG.split(b"\n") if not any(name.encode() in line for name in names)]
    assert [line for line in body.split(b"\n") if b"***" not in line] == untouched
    assert without_secrets(RequestCode.GET_BROKER_RUNTIME_INFO, b"password=1") == (b"password=1", ()), "no settings"


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
        (b'password: "two words", x=1', b"password: ***, x=1"),
        (b"dbPwd=a;next=b", b"dbPwd=***;next=b"),
        (b"aliyunSk=abc, aliyunAk=def", b"aliyunSk=***, aliyunAk=***"),
        (b"Authorization: Bearer abc.def x", b"Authorization: *** x"),
        (b"accessToken=abc", b"accessToken=***"),
        (b"url=jdbc:mysql://root:hunter2@db/x", b"url=jdbc:mysql://root:***@db/x"),
        (b"to https://hooks.slack.com/services/T0/B0/x now", b"to https://hooks.slack.com/services/*** now"),
        (b'secret="without an end, and more', b"secret=***"),
        (b"secret={without an end, and more\nnext=1", b"secret=***\nnext=1"),
        (b"rocksdb.pass=abc keystorePass=def", b"rocksdb.pass=*** keystorePass=***"),
        (b"X-Api-Key: abc, secret-key=def passphrase=ghi", b"X-Api-Key: ***, secret-key=*** passphrase=***"),
        (b"password='two words' x=1", b"password=*** x=1"),
        (rb'password="two \" words" x=1', b"password=*** x=1"),
        (b"password  :  abc x", b"password  :  *** x"),
        (b'Authorization: Digest username="u", response="abc"', b"Authorization: ***"),
        (b"posted with xoxb-1234-abc to it", b"posted with *** to it"),
        (
            b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\nMIIabc\n-----END RSA PRIVATE KEY-----\nx",
            b"-----BEGIN RSA PRIVATE KEY-----***\nx",
        ),
        (b'{"password":12345,"keys":1}', b'{"password":***,"keys":1}'),
        (b'{"passwords":["a","b"],"x":{"token":{"a":{"b":"]}"}},"y":1}}', b'{"passwords":***,"x":{"token":***,"y":1}}'),
        (b"credential={user={name=a}, b=c}, x=1", b"credential=***, x=1"),
        (b"password=a,b)c;d x", b"password=*** x"),
        (b"java -Djavax.net.ssl.keyStorePassword=abc -Xmx1g", b"java -Djavax.net.ssl.keyStorePassword=*** -Xmx1g"),
        (b"namesrv http://u:p@ss@10.0.0.1:9876", b"namesrv http://u:***@10.0.0.1:9876"),
        (
            b"bypass=1, compass: north, tokenValid=false, secret=null",
            b"bypass=1, compass: north, tokenValid=false, secret=null",
        ),
        (b"risk=high, desk:4, task=3", b"risk=high, desk:4, task=3"),
        (b"the consumer's subscription not latest", b"the consumer's subscription not latest"),
        (b"2026-11-21 15:51:11 INFO signature check failed", b"2026-11-21 15:51:11 INFO signature check failed"),
    ],
)
def test_secrets_in_log_lines_are_left_out(line: bytes, kept: bytes) -> None:
    assert text_without_secrets(line) == kept


def test_a_long_line_of_secret_looking_words_is_read_in_no_time() -> None:
    """An expression that looks at every end for every beginning would take hours."""
    line = b"secret" * 200_000
    assert text_without_secrets(line) == line
    for unit in (
        b"secret={ ",
        b'secret="',
        b"secret=\\",
        b"secret:",
        b"://a:",
        b"token",
        b'"token":"',
        b"Sk=",
        b'\\"pwd\\":',
    ):
        began = time.process_time()
        text_without_secrets(unit * (1_000_000 // len(unit)))
        without_secrets(RequestCode.GET_BROKER_RUNTIME_INFO, unit * (1_000_000 // len(unit)))
        assert time.process_time() - began < 5.0, unit


def test_of_other_bodies_texts_of_secret_looking_names_are_left_out_and_they_stay_json() -> None:
    told = {
        "properties": {"accessKey": "a", "x": "b", "db.password": 'q"uo\\te', "token": 5, "pwd": "", "secret": None},
        "credentials": [{"a": ["]"]}, 1],
        "webhook": {"b": {"c": "}"}},
        "arguments": 'java -Dpassword="a b" -Dx=1 xoxb-1-2\n',
        "topicConfigTable": {"password-resets": {"perm": 6}, "token": {"perm": 4}},
        "brokerAddrTable": {"token-broker": {"brokerAddrs": {"0": "token-broker:10911"}}},
        "lines": "secret={a\n" + "token: 'b",
        "sasl": {"password": "behind tables whose names others have chosen"},
    }
    body, _ = without_secrets(RequestCode.GET_CONSUMER_RUNNING_INFO, json.dumps(told).encode())
    told["properties"] |= {"accessKey": "***", "db.password": "***", "token": "***"}
    told |= {"credentials": "***", "webhook": "***", "arguments": "java -Dpassword=*** -Dx=1 ***\n"}
    told |= {"lines": "secret=***", "sasl": {"password": "***"}}
    assert json.loads(body) == told


def test_names_of_topics_and_groups_that_smell_of_a_secret_keep_their_figures() -> None:
    """Real answers of brokers, in which every topic and group has such a name."""
    lines = [json.loads(line) for line in (RECORDED / "index.jsonl").read_text().splitlines()]
    names = {one for line in lines for key, one in (line["ext"] or {}).items() if key in ("topic", "consumerGroup")}
    assert names
    for line in lines:
        if line["file"] and line["code"] != RequestCode.GET_BROKER_CONFIG:
            body = (RECORDED / "bodies" / line["file"]).read_bytes()
            for number, name in enumerate(sorted(names)):
                body = body.replace(f'"{name}'.encode(), f'"password-token_{number}'.encode())
            assert without_secrets(line["code"], body) == (body, ())


@pytest.mark.parametrize("form", ['{"a": SECRET}', "[SECRET]", '{"a": [{"b": SECRET}]}'])
@given(text=st.text(), number=st.integers())
@settings(max_examples=examples(200), deadline=None)
def test_whatever_a_secret_is_none_of_it_is_kept_and_json_stays_json(form: str, text: str, number: int) -> None:
    marked = [f"{text}s3cret", number, ["s3cret", {"a": f"s3cret{text}"}], {text: {"b": ["s3cret"]}}]
    for value in marked:
        planted = json.dumps({"db.password": value, "x": text})
        body, _ = without_secrets(RequestCode.GET_CONSUMER_RUNNING_INFO, form.replace("SECRET", planted).encode())
        assert "s3cret" not in body.decode()
        assert json.loads(body)


@pytest.mark.parametrize(
    ("lines", "whole"),
    [
        (b"a\n-----BEGIN RSA PRIVATE KEY-----\nMII", 2),
        (b"-----BEGIN X-----\nMII\n-----END X-----\na\n", None),
        (b"-----BEGIN X-----\nMII\n-----END X-----\n-----BEGIN Y-----\nMII\n", 38),
        (b"-----BEGIN X-----\n" + b"M" * 20_000, None),  # no key is that long: nothing waits for its end
        (b"nothing", None),
    ],
)
def test_of_a_key_that_has_not_ended_yet_nothing_is_taken(lines: bytes, whole: int | None) -> None:
    assert open_block(lines) == (len(lines) if whole is None else whole)
