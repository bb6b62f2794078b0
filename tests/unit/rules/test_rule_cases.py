"""Every case in `cases/<rule>.yml` gives exactly the findings that it says.

A case: `why` (a sentence), `facts` (only what matters; see `_facts`), `config` (group policies), `expect` (findings).
An expected finding names the fields that matter: variant, severity, state, summary, cause, do_next, figures, queues.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from offsetguard.config import Config
from offsetguard.facts import CollectionGap, GroupFacts, IntervalFacts, OffsetMoveFacts, QueueFacts
from offsetguard.intervals import Interval
from offsetguard.offsets import MessageQueue, QueueOffsets
from offsetguard.rules.reference import LABELS
from offsetguard.rules.registry import ALL_RULES, RULE_FILES, find_all

if TYPE_CHECKING:
    from offsetguard.rules.rule import Finding

CASES = Path(__file__).parent / "cases"
START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
END = Interval(START).end


def _facts(given: dict[str, Any]) -> IntervalFacts:
    """Build facts: `..._s_ago` is seconds before the interval's end; offsets are [min, consumer, pull, max]."""
    return IntervalFacts(
        cluster="demo",
        interval=Interval(START),
        now=END,
        queues=tuple(_queue(entry) for entry in given.get("queues", ())),
        groups=tuple(_group(entry) for entry in given.get("groups", ())),
        offset_moves=tuple(_move(entry) for entry in given.get("offset_moves", ())),
        gaps=tuple(CollectionGap(**entry) for entry in given.get("gaps", ())),
        unseen_broker_names=frozenset(given.get("unseen_broker_names", ())),
        cluster_unseen=given.get("cluster_unseen", False),
    )


def _queue(entry: dict[str, Any]) -> QueueFacts:
    min_offset, consumer_offset, pull_offset, max_offset = entry["offsets"]
    offsets = QueueOffsets(min_offset, max_offset, consumer_offset, pull_offset)
    violations = tuple(violation.value for violation in offsets.order_violations())
    return QueueFacts(entry["consumer_group"], _message_queue(entry), offsets, None, entry.get("lag_ms"), violations)


def _group(entry: dict[str, Any]) -> GroupFacts:
    unknown = dict.fromkeys(
        ("lag", "effective_lag", "inflight", "available", "lost", "lag_ms", "online_client_count", "message_model")
    )
    counts = {"queue_count": 4, "unknown_queue_count": 0, "never_committed_queue_count": 0}
    return GroupFacts(**{"topic": "orders", "topic_kind": "normal", **unknown, **counts, **entry})  # type: ignore[arg-type]


def _move(entry: dict[str, Any]) -> OffsetMoveFacts:
    requested, corrected = entry["moved"]
    broker_name, _, queue_id = entry.get("queue", "broker-a/0").partition("/")
    return OffsetMoveFacts(
        consumer_group=entry["consumer_group"],
        client_id=entry.get("client_id"),
        topic=entry.get("topic", "orders"),
        broker_name=broker_name,
        queue_id=int(queue_id) if queue_id else None,
        origin=entry.get("origin", "event"),
        requested_offset=requested,
        corrected_offset=corrected,
        move_count=entry.get("move_count", 1),
        first_moved_at=END - timedelta(seconds=entry.get("first_s_ago", 30)),
        last_moved_at=END - timedelta(seconds=entry.get("last_s_ago", 30)),
    )


def _message_queue(entry: dict[str, Any]) -> MessageQueue:
    broker_name, queue_id = entry.get("queue", "broker-a/0").split("/")
    return MessageQueue(entry.get("topic", "orders"), broker_name, int(queue_id))


def _config(policies: list[dict[str, Any]]) -> Config:
    return Config.from_values(
        {
            "clusters": {"demo": {"name_servers": ["10.0.0.1:9876", "10.0.0.2:9876"]}},
            "teams": {"operations": {"mail": ["operations@example.org"]}},
            "default_team": "operations",
            "groups": policies,
        }
    )


def _shown(finding: Finding, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return of a finding what the case wants to know."""
    shown: dict[str, Any] = {
        name: getattr(finding, name)
        for name in ("consumer_group", "topic", "variant", "state", "summary", "cause", "do_next")
        if name in wanted
    }
    if "severity" in wanted:
        shown["severity"] = finding.severity.value
    if "figures" in wanted:
        shown["figures"] = {name: finding.figures.get(name, "no such figure") for name in wanted["figures"]}
    if "queues" in wanted:
        queues = (evidence.message_queue for evidence in finding.queues)
        shown["queues"] = [f"{queue.broker_name}/{queue.queue_id}" for queue in queues]
    return shown


def _cases() -> list[Any]:
    return [
        pytest.param(file.stem, case, id=f"{file.stem}: {case['why']}")
        for file in sorted(CASES.glob("*.yml"))
        for case in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("rule_id", "case"), _cases())
def test_a_case_gives_exactly_the_findings_that_it_says(rule_id: str, case: dict[str, Any]) -> None:
    findings = [f for f in find_all(_facts(case["facts"]), _config(case.get("config", []))) if f.rule.id == rule_id]
    expected = case["expect"] or []
    shown = [_shown(finding, wanted) for finding, wanted in zip(findings, expected, strict=False)]
    assert (shown, len(findings)) == (expected, len(expected)), [finding.cause for finding in findings]


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_each_rule_has_a_case_that_fires_and_one_that_does_not(rule: Any) -> None:
    cases = yaml.safe_load((CASES / f"{rule.id}.yml").read_text(encoding="utf-8"))
    assert any(case["expect"] for case in cases)
    assert sum(not case["expect"] for case in cases) >= 2


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_each_variant_has_a_case(rule: Any) -> None:
    cases = yaml.safe_load((CASES / f"{rule.id}.yml").read_text(encoding="utf-8"))
    shown = {finding.get("variant", "default") for case in cases for finding in case["expect"] or ()}
    assert shown == set(rule.texts)


@pytest.mark.parametrize("file", RULE_FILES, ids=lambda file: file.RULE.id)
def test_a_rule_is_found_by_its_id_as_file_name_and_explains_itself(file: Any) -> None:
    assert Path(file.__file__).stem == file.RULE.id
    labels = {line.partition(": ")[0] for line in file.__doc__.splitlines()}
    assert labels >= set(LABELS)
    assert "default" in file.RULE.texts
    assert set(file.RULE.needs) <= set(IntervalFacts.__dataclass_fields__)
