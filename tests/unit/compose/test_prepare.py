"""What compose/prepare.py makes and refuses; tests/compose runs it in its container."""

import importlib.util
import json
import stat
from pathlib import Path
from types import ModuleType

import pytest

from offsetguard.config import Delivery
from offsetguard.deliver.channels.channel import Connection, open_by
from offsetguard.deliver.channels.one_post import Robot
from offsetguard.deliver.deliver import CHANNELS
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.robots.server import ROBOTS, RobotServer

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the program with all its folders in a temporary one, and an empty environment."""
    spec = importlib.util.spec_from_file_location("prepare", REPOSITORY / "compose" / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for folder in ("postgres", "airflow", "spark", "demo"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(module, "SECRETS", tmp_path)
    monkeypatch.setattr(module, "SUPERUSER_PASSWORD", tmp_path / "postgres" / "superuser-password")
    monkeypatch.setattr(module, "DEMO", tmp_path / "demo")
    monkeypatch.setenv("OFFSETGUARD_HOME", str(tmp_path / "home"))
    for name in (*module.TOLD_BY, "SMTP_TLS", "SMTP_PORT", "SMTP_USER", "SMTP_PASSWORD", "SPARK_HOST"):
        monkeypatch.delenv(f"OFFSETGUARD_{name}", raising=False)
    return module


def test_secrets_are_made_once_at_random_and_each_for_those_that_need_it(prepare: ModuleType, tmp_path: Path) -> None:
    def made() -> dict[str, str]:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {str(path.relative_to(tmp_path)): path.read_text(encoding="ascii") for path in files}

    prepare.make_secrets()
    first = made()
    prepare.make_secrets()
    assert made() == first, "a second start keeps them"
    assert len(set(first.values())) == len(first) == 8
    assert [line.split(":")[3] for line in first["airflow/pgpass"].splitlines()] == [
        "airflow",
        "offsetguard",
        "iceberg",
    ]
    assert first["spark/pgpass"] in first["airflow/pgpass"], "Spark knows the role of the catalog alone"
    assert all(len(line.split(":")[4]) >= 32 for line in first["airflow/pgpass"].splitlines())
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in first}
    others = {name for name, mode in modes.items() if mode != 0o600}
    assert others == {"postgres/superuser-password"}, "Postgres runs under another user, in a volume of its own"


def test_nobody_to_tell_is_refused(prepare: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        prepare.check_environment()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("error: .env: missing or not edited: ")
    assert "cp .env.example .env" in line


@pytest.mark.parametrize("name", ["SMTP_HOST", "SLACK_TOKEN", "DINGTALK_URL", "WEBHOOK_URL", "ALERTMANAGER_URL"])
def test_one_channel_of_any_kind_is_somebody_to_tell(
    prepare: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"OFFSETGUARD_{name}", "there")
    prepare.check_environment()


def test_the_demos_connections_lead_to_the_demos_robots(prepare: ModuleType) -> None:
    prepare.make_secrets()
    (prepare.DEMO / "offsetguard.yml").touch()
    made = prepare.connections()
    with RobotServer() as robots:
        for name in ROBOTS:
            found = made[f"offsetguard_{name}"]
            assert found["host"] == "http://receivers:8027"
            to = Connection("c", robots.url, None, None, found["password"], None, json.loads(found["extra"]))
            opened = open_by(CHANNELS[name], "c", to, Delivery())
            assert isinstance(opened, Robot)
            opened.send(opened.said(VIEW))
        assert [one.robot for one in robots.received] == list(ROBOTS)


def test_the_demos_volumes_are_not_used_for_real(prepare: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    (prepare.DEMO / "offsetguard.yml").touch()
    with pytest.raises(SystemExit):
        prepare.check_environment()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("error: volumes: they are those of the demo")
    assert "docker compose --profile demo down --volumes" in line


def test_too_little_memory_is_refused(
    prepare: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:        4030000 kB\nMemFree:         1000000 kB\n")
    with pytest.raises(SystemExit):
        prepare.check_memory(meminfo)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("error: memory: Docker's machine has 3.8 GiB and all parts together take up to ")
    monkeypatch.setenv("OFFSETGUARD_LITTLE_MEMORY", "yes")
    prepare.check_memory(meminfo)


CONNECTIONS = {
    "starttls": ({"SMTP_HOST": "mail.example.com"}, 587, {"disable_ssl": True, "disable_tls": False}),
    "tls": ({"SMTP_HOST": "mail.example.com", "SMTP_TLS": "tls"}, 465, {"disable_ssl": False, "disable_tls": True}),
    "none": (
        {"SMTP_HOST": "mail.example.com", "SMTP_TLS": "none", "SMTP_PORT": "2525"},
        2525,
        {"disable_ssl": True, "disable_tls": True},
    ),
}


@pytest.mark.parametrize("mode", CONNECTIONS)
def test_the_mail_server_of_env_becomes_a_connection(
    prepare: ModuleType, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    variables, port, extra = CONNECTIONS[mode]
    for name, value in variables.items():
        monkeypatch.setenv(f"OFFSETGUARD_{name}", value)
    smtp = prepare.connections()["offsetguard_smtp"]
    assert (smtp["host"], smtp["port"], json.loads(smtp["extra"])) == ("mail.example.com", port, extra)


def test_connections_that_env_says_nothing_of_are_left_alone(
    prepare: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(prepare.connections()) == {"spark_default"}
    monkeypatch.setenv("OFFSETGUARD_SLACK_TOKEN", "xoxb-1")
    assert set(prepare.connections()) == {"spark_default", "offsetguard_slack"}
    monkeypatch.setenv("OFFSETGUARD_FEISHU_URL", "https://open.feishu.cn/open-apis/bot/v2/hook/1")
    monkeypatch.setenv("OFFSETGUARD_FEISHU_SECRET", "word")
    monkeypatch.setenv("OFFSETGUARD_ALERTMANAGER_URL", "http://alertmanager:9093")
    made = prepare.connections()
    assert made["offsetguard_alertmanager"] == {"conn_type": "generic", "host": "http://alertmanager:9093"}
    feishu = made["offsetguard_feishu"]
    assert (feishu["password"][-6:], feishu["extra"]) == ("hook/1", '{"secret": "word"}')
    assert "offsetguard_dingtalk" not in made
    monkeypatch.setenv("OFFSETGUARD_SMTP_HOST", "mail.example.com")
    monkeypatch.setenv("OFFSETGUARD_SMTP_TLS", "ssl")
    with pytest.raises(SystemExit):
        prepare.connections()
    assert "OFFSETGUARD_SMTP_TLS: 'ssl' is not one of starttls, tls, none" in capsys.readouterr().out
