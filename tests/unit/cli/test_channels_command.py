"""`offsetguard channels`: what Airflow's connections lack, and whether a test message arrives."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from offsetguard.store import outbox
from offsetguard.store.database import writing
from offsetguard_peers.alertmanager import Alertmanager
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.delivery.world import NOW
from offsetguard_peers.robots.server import SECRET, TOKEN, Fault, RobotServer

CONFIG = """
clusters: {orders: {name_servers: ["127.0.0.1:9876"]}}
default_team: ops
teams:
  ops: {wecom: [night], webhooks: [nowhere]}
  payments: {dingtalk: [chat], feishu: [bot]}
routes:
  - {team: payments, language: zh}
"""


@pytest.fixture
def server(database: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RobotServer]:
    """Start the robots, with a file of teams and connections that lead there."""
    file = tmp_path / "offsetguard.yml"
    file.write_text(CONFIG, "utf-8")
    monkeypatch.setenv("OFFSETGUARD_CONFIG", str(file))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    with RobotServer() as started:
        for conn_id, robot in (("NIGHT", "wecom"), ("CHAT", "dingtalk"), ("BOT", "feishu")):
            connection = {"conn_type": "generic", "password": started.address(robot), "extra": {"secret": SECRET}}
            monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps(connection))
        yield started


@pytest.mark.slow
def test_a_receiver_without_a_connection_or_switched_off_is_found_and_nothing_is_sent(
    server: RobotServer, database: Engine
) -> None:
    with writing(database) as session:
        outbox.enqueue(session, idempotency_key="k", channel="wecom", receiver="night", view=VIEW, now=NOW)
    message = outbox.claim_next(database, outbox.Lane("wecom", "night"), now=NOW, claim_ms=60_000)
    assert message is not None
    outbox.mark_failed(database, message, error="answers 410", off=True)
    listed = run("channels", "list", "--format", "json")
    assert listed.exit_code == 1
    said = {line["receiver"]: line["said"] for line in json_lines(listed)}
    assert said.pop("nowhere").startswith("Airflow connection 'nowhere' does not exist; create one of type generic")
    assert said == {"night": "answers 410", "chat": "", "bot": ""}
    assert not server.received
    assert TOKEN not in listed.output


@pytest.mark.slow
def test_a_team_whose_channel_has_no_connection_is_a_problem_of_the_file_with_its_line(server: RobotServer) -> None:
    checked = run("config", "check", "--connections", "--format", "json")
    assert checked.exit_code == 1
    problems = (line for line in json_lines(checked) if line["kind"] == "problem")
    (problem,) = (line for line in problems if "connection" in line["message"])
    assert (problem["line"], problem["field"]) == (5, "teams.ops.webhooks[0]")
    assert problem["message"].startswith("Airflow connection 'nowhere' does not exist; create one of type generic")
    assert TOKEN not in checked.output


@pytest.mark.slow
def test_a_test_message_says_what_it_is_and_the_command_what_was_answered(server: RobotServer) -> None:
    server.faults.append(Fault())
    server.faults.append(Fault({"code": 19024, "msg": "Key Words Not Found"}))
    sent = run("channels", "test", "--team", "payments", "--yes", "--format", "table")
    assert sent.exit_code == 1
    first, second = sent.output.splitlines()
    assert first == "payments  DingTalk chat: accepted: robot chat"
    assert second.startswith(
        "payments  Feishu bot: not accepted: the Feishu bot of the Airflow connection 'bot' refused"
    )
    again = run("channels", "test", "--team", "payments", "--yes", "--format", "json")
    assert [line["accepted"] for line in json_lines(again)] == [True, True]
    for message in server.received:
        assert "这是一条测试消息" in message.text
    assert SECRET not in sent.output


@pytest.mark.slow
def test_a_team_without_receivers_is_tested_by_the_alertmanager_where_nothing_fires(
    server: RobotServer, alertmanager: Alertmanager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = 'clusters: {orders: {name_servers: ["127.0.0.1:9876"]}}\ndefault_team: ops\nteams: {ops: {}}\n'
    (tmp_path / "offsetguard.yml").write_text(f"{alone}delivery: {{alertmanagers: [am]}}\n", "utf-8")
    for address, code, said in (
        ("http://127.0.0.1:1", 1, "not accepted: Alertmanager 'am' cannot be reached"),
        (alertmanager.url, 0, "accepted: alertmanager am"),
    ):
        monkeypatch.setenv("AIRFLOW_CONN_AM", json.dumps({"conn_type": "generic", "host": address}))
        sent = run("channels", "test", "--team", "ops", "--yes", "--format", "table")
        assert (sent.exit_code, sent.output.startswith(f"ops  Alertmanager am: {said}")) == (code, True), sent.output
    assert alertmanager.alerts() == []
    assert run("config", "check", "--connections").exit_code == 0


def test_it_is_asked_first(server: RobotServer) -> None:
    answered = run("channels", "test", "--team", "payments")
    assert answered.exit_code == 1
    assert "Send a test message to DingTalk chat, Feishu bot?" in answered.output
    assert not server.received
