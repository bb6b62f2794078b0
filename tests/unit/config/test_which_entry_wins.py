"""For each field the first entry that matches and sets it wins, and somebody is always notified."""

import fnmatch
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.config import Config
from offsetguard.config.fields import matches
from offsetguard.model.verdicts import Severity

CONFIG = """
clusters: {main: {name_servers: ["a:1"]}, spare: {name_servers: ["a:1"]}}
teams:
  ops: {mail: [ops@example.com, ops@example.com]}
  orders: {mail: [orders@example.com], slack: ["#orders"]}
  silent: {}
default_team: ops
groups:
  - {match: order-vip, max_lag_messages: 5}
  - {match: "order-*", cluster: m*, team: orders, max_lag_messages: 50}
  - {match: "order-?", team: silent}
  - {match: "[!a-z]*", team: silent, max_lag_messages: 0}
routes:
  - {consumer_group: order-vip, severity: critical, mail: [], slack: ["#vip"]}
  - {team: "ord*", rule: "messages_*", language: zh}
  - {cluster: spare, language: zh, group_wait_ms: 7}
  - {team: orders, language: en, group_wait_ms: 3, send_resolved: false, escalate_to: ops, escalate_after_ms: 1}
  - {team: silent, severity: critical, slack: ["#silent"]}
  - {team: ops, rule: accumulation, severity: critical, mail: [night@example.com]}
  - {team: ops, rule: flow_control, mail: []}
"""


@pytest.fixture(scope="module")
def config() -> Config:
    return Config.model_validate(yaml.safe_load(CONFIG))


@pytest.mark.parametrize(
    ("cluster", "group", "team", "max_lag_messages"),
    [
        ("main", "order-vip", "orders", 5),  # each field by another entry
        ("main", "order-1", "orders", 50),
        ("spare", "order-vip", "ops", 5),
        ("spare", "order-1", "silent", 10_000),
        ("spare", "order-12", "ops", 10_000),
        ("main", "Order-1", "silent", 0),  # case matters, and 0 is set
        ("main", "billing", "ops", 10_000),
    ],
)
def test_the_policy_of_a_group(config: Config, cluster: str, group: str, team: str, max_lag_messages: int) -> None:
    for _ in range(2):  # the second time it is remembered
        policy = config.policy(cluster, group)
        assert (policy.team, policy.max_lag_messages) == (team, max_lag_messages)


OPS, ORDERS = [("mail", "ops@example.com")], [("mail", "orders@example.com"), ("slack", "#orders")]
CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING
DEFAULTS = {"language": "en", "group_wait_ms": 0, "send_resolved": True, "escalate_to": None}
OF_ORDERS = {"group_wait_ms": 3, "send_resolved": False, "escalate_to": "ops"}


@pytest.mark.parametrize(
    ("team", "cluster", "rule_id", "severity", "group", "heard_by", "receivers", "fields"),
    [
        ("orders", "main", "accumulation", WARNING, "order-1", "orders", ORDERS, OF_ORDERS),
        ("orders", "main", "messages_lost", WARNING, "order-1", "orders", ORDERS, {**OF_ORDERS, "language": "zh"}),
        (
            "orders",
            "spare",
            "accumulation",
            WARNING,
            None,
            "orders",
            ORDERS,
            {**OF_ORDERS, "language": "zh", "group_wait_ms": 7},
        ),
        ("orders", "main", "accumulation", WARNING, "order-vip", "orders", ORDERS, OF_ORDERS),
        ("orders", "main", "accumulation", CRITICAL, "order-vip", "orders", [("slack", "#vip")], OF_ORDERS),
        ("orders", "main", "accumulation", CRITICAL, None, "orders", ORDERS, OF_ORDERS),  # about no group
        ("silent", "main", "messages_lost", CRITICAL, "a", "silent", [("slack", "#silent")], {}),
        ("silent", "main", "messages_lost", WARNING, "a", "ops", OPS, {}),  # a team without receivers
        ("silent", "main", "accumulation", WARNING, "a", "ops", OPS, {}),
        ("gone", "main", "accumulation", CRITICAL, "a", "ops", [("mail", "night@example.com")], {}),
        ("ops", "main", "flow_control", WARNING, None, "ops", OPS, {}),  # nobody left: the team's own list
        ("ops", "spare", "messages_lost", WARNING, None, "ops", OPS, {"language": "zh", "group_wait_ms": 7}),
    ],
)
def test_the_route_of_a_notification(
    config: Config,
    *,
    team: str,
    cluster: str,
    rule_id: str,
    severity: Severity,
    group: str | None,
    heard_by: str,
    receivers: list[tuple[str, str]],
    fields: dict[str, Any],
) -> None:
    for _ in range(2):  # the second time it is remembered
        route = config.route(team, cluster, rule_id=rule_id, severity=severity, consumer_group=group)
        assert (route.team, route.heard_by, list(route.receivers)) == (team, heard_by, receivers)
        assert {name: getattr(route, name) for name in DEFAULTS} == {**DEFAULTS, **fields}


NAMES = st.text("ab-", min_size=1, max_size=6)
PATTERNS = st.lists(st.sampled_from(["a", "b", "-", "*", "?", "[ab]", "[!a]", "["]), min_size=1, max_size=5)


@given(NAMES, PATTERNS.map("".join))
def test_a_pattern_matches_as_fnmatch_does(name: str, pattern: str) -> None:
    assert matches(name, pattern) == fnmatch.fnmatchcase(name, pattern)
