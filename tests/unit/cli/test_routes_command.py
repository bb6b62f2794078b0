"""`offsetguard routes test`: who would be told, how and when, and by which lines; decided by the judge's own code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.judge.registry import RULES
from offsetguard.model.silence import Matchers, Silence
from offsetguard.store import silences
from offsetguard.store.database import writing
from offsetguard_peers.databases import fresh_database

CONFIG = """\
clusters:
  main: {name_servers: ["127.0.0.1:1"]}
teams:
  operators: {mail: [operators@example.com]}
  orders: {mail: [orders@example.com], slack: ["#orders"]}
  boss: {slack_webhooks: [boss_hook]}
  nobody: {}
default_team: operators
groups:
  - match: "order-*"
    team: orders
  - {match: "none-*", team: nobody}
routes:
  - team: orders
    severity: critical
    escalate_to: boss
    escalate_after_repeats: 2
    escalate_after_ms: 3_600_000
  - {rule: messages_lost, mail: [lost@example.com]}
  - team: orders
    language: zh
    time_zone: Asia/Shanghai
    quiet_hours: [{from: "22:00", to: "07:00"}]
    maintenance: [{from: "2026-12-01 00:00", to: "2026-12-01 04:00", consumer_group: "order-s*", comment: new disks}]
"""
DAY = "2026-11-22T04:00Z"  # 12:00 in Shanghai
NIGHT = "2026-11-22T18:00Z"  # 02:00 in Shanghai


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "offsetguard.yml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    environment: Mapping[str, str] = {
        "OFFSETGUARD_CONFIG": str(folder / "offsetguard.yml"),
        "OFFSETGUARD_HOME": str(folder),
        "OFFSETGUARD_DATABASE_URL": f"sqlite:///{folder / 'offsetguard.db'}",
    }
    return CliRunner().invoke(offsetguard, ["routes", "test", "--cluster", "main", *arguments], env=environment)


def answers(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    result = run(folder, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    text = result.output.replace(f"{folder / 'offsetguard.yml'}:", "FILE:")
    return [json.loads(line) for line in text.splitlines()]


def test_an_answer_names_receivers_language_spans_escalation_and_the_line_of_each(folder: Path) -> None:
    asked = ("--group", "order-1", "--rule", "accumulation", "--severity", "critical", "--at", DAY)
    assert answers(folder, *asked) == [
        {
            "rules": ["accumulation"],
            "severities": ["critical"],
            "cluster": "main",
            "consumer_group": "order-1",
            "topic": None,
            "at": "2026-11-22T04:00:00+00:00",
            "told": True,
            "team": "orders",
            "owner": "FILE:11",
            "heard_by": "orders",
            "receivers": [
                {"channel": "mail", "receiver": "orders@example.com"},
                {"channel": "slack", "receiver": "#orders"},
            ],
            "language": "zh",
            "time_zone": "Asia/Shanghai",
            "group_wait_ms": 0,
            "group_interval_ms": 300_000,
            "repeat_interval_ms": 14_400_000,
            "send_resolved": True,
            "digest_above": 10,
            "muted": None,
            "escalation": [
                {
                    "team": "boss",
                    "after_repeats": 2,
                    "after_ms": 3_600_000,
                    "receivers": [{"channel": "slack_webhook", "receiver": "boss_hook"}],
                }
            ],
            "decided_by": {
                "quiet_hours": "FILE:23",
                "maintenance": "FILE:24",
                "language": "FILE:21",
                "time_zone": "FILE:22",
                "escalate_to": "FILE:16",
                "escalate_after_repeats": "FILE:17",
                "escalate_after_ms": "FILE:18",
            },
        }
    ]


def test_rules_and_severities_that_are_told_alike_share_an_answer(folder: Path) -> None:
    told = [
        (len(one["rules"]), one["severities"], one["receivers"][0]["receiver"])
        for one in answers(folder, "--group", "other", "--at", DAY)
    ]
    both = ["critical", "warning"]
    assert told == [
        (len(RULES) - 1, both, "operators@example.com"),
        (1, both, "lost@example.com"),
    ]


@pytest.mark.parametrize(
    ("asked", "told", "text"),
    [
        (("--group", "order-1", "--severity", "warning", "--at", DAY), True, None),
        (("--group", "order-1", "--severity", "warning", "--at", NIGHT), False, "quiet hours until 2026-11-23 07:00"),
        (("--group", "order-1", "--severity", "critical", "--at", NIGHT), True, None),
        (
            ("--group", "order-s", "--severity", "critical", "--at", "2026-11-30T16:00Z"),
            False,
            "maintenance: new disks",
        ),
        (("--group", "order-s", "--severity", "critical", "--at", "2026-11-30T20:00Z"), True, None),
        (("--group", "order-1", "--severity", "info", "--at", DAY), False, None),
    ],
)
def test_what_mutes_at_that_moment_is_named(folder: Path, asked: tuple[str, ...], told: bool, text: str | None) -> None:
    (answer,) = answers(folder, "--rule", "accumulation", *asked)
    assert answer["told"] is told
    assert (answer["muted"] is None) is (text is None)
    if text is not None:
        assert answer["muted"]["text"].startswith(text)


def test_a_silence_that_is_active_at_that_moment_mutes_what_it_matches(folder: Path) -> None:
    now = datetime(2026, 11, 22, 4, tzinfo=UTC)
    engine = fresh_database(f"sqlite:///{folder / 'offsetguard.db'}")
    wanted = Silence(Matchers(topic="refunds"), "alice", "deployment", now, now + timedelta(hours=1), now)
    with writing(engine) as session:
        kept = silences.add(session, wanted)
    engine.dispose()
    asked = ("--group", "other", "--rule", "accumulation", "--severity", "critical")
    (muted,) = answers(folder, *asked, "--topic", "refunds", "--at", "2026-11-22T04:30Z")
    assert muted["muted"] == {
        "reason": "muted_by_silence",
        "by": str(kept.id),
        "text": "silence of alice: deployment",
    }
    assert answers(folder, *asked, "--topic", "orders", "--at", "2026-11-22T04:30Z")[0]["told"]
    assert answers(folder, *asked, "--topic", "refunds", "--at", "2026-11-22T05:00Z")[0]["told"]


def test_asking_makes_no_database(folder: Path) -> None:
    answers(folder, "--group", "other")
    assert [one.name for one in folder.iterdir()] == ["offsetguard.yml"]


def test_a_group_that_nobody_owns_is_heard_by_the_default_team_and_the_text_says_so(folder: Path) -> None:
    lines = run(folder, "--group", "other", "--rule", "accumulation", "--at", DAY, "--format", "table").output
    assert lines.splitlines() == [
        "consumer group other of main, at 2026-11-22 04:00:00 UTC",
        "",
        "critical and warning, rule accumulation:",
        "  owner        team operators: no entry of `groups` gives it to a team, so the default team",
        "  told         mail operators@example.com",
        "  language     en, times in UTC",
        "  when         at once, news after 5 min at the earliest, repeated after 4 h; its end is told",
        "  routes       none of the file's `routes` says anything about it: `teams` and `delivery` decide",
    ]


def test_the_default_team_hears_for_a_team_that_nobody_can_be_told_of(folder: Path) -> None:
    asked = ("--group", "none-1", "--rule", "accumulation", "--at", DAY)
    text = run(folder, *asked, "--format", "table").output
    assert "mail operators@example.com (team operators: team nobody has nobody to tell)" in text
    assert answers(folder, *asked)[0]["heard_by"] == "operators"


def test_text_shows_mutes_and_escalation_with_their_lines(folder: Path) -> None:
    text = run(folder, "--group", "order-1", "--at", NIGHT, "--format", "table").output.replace(f"{folder}/", "")
    assert "critical, every rule but messages_lost:" in text
    assert "  but not now  quiet hours until 2026-11-23 07:00:00 UTC+8" in text
    assert (
        "  escalation   unless acknowledged, after 2 repeats or 1 h: team boss, Slack webhook boss_hook, "
        "by offsetguard.yml:16, offsetguard.yml:17, offsetguard.yml:18" in text
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cluster", "mian"), "--cluster: there is no cluster 'mian'; did you mean 'main'?"),
        (("--rule", "mesages_lost"), "--rule: there is no rule 'mesages_lost'; did you mean 'messages_lost'?"),
        (("--at", "yesterday"), "'yesterday' is no moment"),
    ],
)
def test_names_that_do_not_exist_are_refused_with_what_was_meant(
    folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_a_group_name_that_would_clear_a_terminal_is_shown_harmless(folder: Path) -> None:
    assert "\x1b" not in run(folder, "--group", "x\x1b[2J\u202e", "--format", "table").output
