"""`offsetguard routes test`: who would be told, how and when, and by which lines; decided by the judge's own code."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import Engine

from offsetguard.judge.registry import RULES
from offsetguard.model.notification import Matchers, Silence
from offsetguard.store import silences
from offsetguard.store.database import writing
from offsetguard_peers import command_line
from offsetguard_peers.command_line import json_lines

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


@pytest.fixture(autouse=True)
def config(folder: Path) -> None:
    """Write the configuration."""
    (folder / "offsetguard.yml").write_text(CONFIG, encoding="utf-8")


def run(*arguments: str, group: str = "other", output_format: str = "table") -> Result:
    options = ("--cluster", "main", "--group", group, "--format", output_format)
    result = command_line.run("routes", "test", *options, *arguments)
    assert result.exit_code == 0, result.output
    return result


def answers(*arguments: str, group: str = "other") -> list[dict[str, Any]]:
    return json_lines(run(*arguments, group=group, output_format="json"))


def test_an_answer_names_receivers_language_spans_escalation_and_the_line_of_each(folder: Path) -> None:
    (answer,) = answers("--rule", "accumulation", "--severity", "critical", "--at", DAY, group="order-1")
    file = folder / "offsetguard.yml"
    lines = {
        "quiet_hours": 23,
        "maintenance": 24,
        "language": 21,
        "time_zone": 22,
        "escalate_to": 16,
        "escalate_after_repeats": 17,
        "escalate_after_ms": 18,
    }
    assert answer == {
        "rules": ["accumulation"],
        "severities": ["critical"],
        "cluster": "main",
        "consumer_group": "order-1",
        "topic": None,
        "at": "2026-11-22T04:00:00+00:00",
        "told": True,
        "team": "orders",
        "owner": f"{file}:11",
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
        "decided_by": {name: f"{file}:{line}" for name, line in lines.items()},
    }


def test_rules_and_severities_that_are_told_alike_share_an_answer() -> None:
    told = [(len(one["rules"]), one["severities"], one["receivers"][0]["receiver"]) for one in answers("--at", DAY)]
    both = ["critical", "warning"]
    assert told == [(len(RULES) - 1, both, "operators@example.com"), (1, both, "lost@example.com")]


@pytest.mark.parametrize(
    ("group", "severity", "at", "told", "text"),
    [
        ("order-1", "warning", DAY, True, None),
        ("order-1", "warning", NIGHT, False, "quiet hours until 2026-11-23 07:00"),
        ("order-1", "critical", NIGHT, True, None),
        ("order-s", "critical", "2026-11-30T16:00Z", False, "maintenance: new disks"),
        ("order-s", "critical", "2026-11-30T20:00Z", True, None),
        ("order-1", "info", DAY, False, None),
    ],
)
def test_what_mutes_at_that_moment_is_named(group: str, severity: str, at: str, told: bool, text: str | None) -> None:
    (answer,) = answers("--rule", "accumulation", "--severity", severity, "--at", at, group=group)
    assert (answer["told"], answer["muted"] is None) == (told, text is None)
    if text is not None:
        assert answer["muted"]["text"].startswith(text)


def test_a_silence_that_is_active_at_that_moment_mutes_what_it_matches(database: Engine) -> None:
    now = datetime(2026, 11, 22, 4, tzinfo=UTC)
    wanted = Silence(Matchers(topic="refunds"), "alice", "deployment", now, now + timedelta(hours=1), now)
    with writing(database) as session:
        kept = silences.add(session, wanted)

    def answer(topic: str, at: str) -> dict[str, Any]:
        (one,) = answers("--rule", "accumulation", "--severity", "critical", "--topic", topic, "--at", at)
        return one

    muted = {"reason": "muted_by_silence", "by": str(kept.id), "text": "silence of alice: deployment"}
    assert answer("refunds", "2026-11-22T04:30Z")["muted"] == muted
    assert answer("orders", "2026-11-22T04:30Z")["told"]
    assert answer("refunds", "2026-11-22T05:00Z")["told"]


def test_asking_makes_no_database(folder: Path) -> None:
    answers()
    assert [one.name for one in folder.iterdir()] == ["offsetguard.yml"]


def test_a_group_that_nobody_owns_is_heard_by_the_default_team_and_the_text_says_so() -> None:
    assert run("--rule", "accumulation", "--at", DAY).stdout.splitlines() == [
        "consumer group other of main, at 2026-11-22 04:00:00 UTC",
        "",
        "critical and warning, rule accumulation:",
        "  owner        team operators: no entry of `groups` gives it to a team, so the default team",
        "  told         mail operators@example.com",
        "  language     en, times in UTC",
        "  when         at once, what is new after 5 min at the earliest, repeated after 4 h; its end is told",
        "  routes       none of the file's `routes` says anything about it: `teams` and `delivery` decide",
    ]


def test_the_default_team_hears_for_a_team_that_nobody_can_be_told_of() -> None:
    asked = ("--rule", "accumulation", "--at", DAY)
    text = "mail operators@example.com (team operators: team nobody has nobody to tell)"
    assert text in run(*asked, group="none-1").stdout
    assert answers(*asked, group="none-1")[0]["heard_by"] == "operators"


def test_text_shows_mutes_and_escalation_with_their_lines(folder: Path) -> None:
    text = run("--at", NIGHT, group="order-1").stdout.replace(f"{folder}/", "")
    assert "critical, every rule but messages_lost:" in text
    assert "  but not now  quiet hours until 2026-11-23 07:00:00 UTC+8" in text
    assert (
        "  escalation   unless acknowledged, after 2 repeats or 1 h: team boss, Slack webhook boss_hook, "
        "by offsetguard.yml:16, offsetguard.yml:17, offsetguard.yml:18" in text
    )


def test_a_group_name_that_would_clear_a_terminal_is_shown_harmless() -> None:
    assert "\x1b" not in run(group="x\x1b[2J\u202e").stdout
