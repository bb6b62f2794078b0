"""Every case in `cases/<rule>.yml` gives exactly the findings that it says.

A case: `why` (a sentence), `facts` (only what matters; see `_facts`), `config` (group policies), `expect` (findings of
the rule by itself, before one finding explains another). An expected finding names the fields that matter: variant,
severity, state, summary, cause, do_next, figures, queues, brokers. Where they matter:
- `cannot_tell`: all that the rule cannot tell, each with the fields that matter (consumer_group, brokers, because);
- `explains`: what the findings of the rule explain in the end ("rule_id consumer_group topic", - for none), sorted;
- `others`: the rules that are found besides this one in the end, sorted; an empty list: there is no other warning.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from offsetguard.config import Config
from offsetguard.facts import (
    BrokerFacts,
    ClusterFacts,
    CollectionGap,
    GroupFacts,
    IntervalFacts,
    LockWaitFacts,
    LogLineFacts,
    OffsetMoveFacts,
    OnlineGroupFacts,
    QueueFacts,
    SubscriptionFacts,
    TopicFacts,
    TrafficHour,
    UnseenBrokerFacts,
)
from offsetguard.intervals import Interval
from offsetguard.offsets import MessageQueue, QueueOffsets
from offsetguard.queue_state import Sample, rebuild
from offsetguard.rules.reference import LABELS
from offsetguard.rules.registry import ALL_RULES, RULE_FILES, judge, look
from offsetguard.rules.unseen_facts import OF_THE_ROUND

if TYPE_CHECKING:
    from offsetguard.rules.rule import CannotTell, Finding

CASES = Path(__file__).parent / "cases"
START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
END = Interval(START).end
# fields without a default, where a case does not say them
UNSAID: dict[type, dict[str, Any]] = {
    TopicFacts: {"topic_kind": "normal", "queue_count": 4, "consumer_group_count": 1, "message_count": None},
    BrokerFacts: {"broker_id": 0, "listed": True, "answered": True},
    ClusterFacts: dict.fromkeys(
        ("broker_count", "replica_count", "answered_replica_count", "topic_count", "consumer_group_count"), 1
    ),
    LockWaitFacts: {
        **dict.fromkeys(("holder_client_id", "waiter_client_id", "ended_at", "ended_by", "next_holder_client_id")),
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 0,
        "told_by": "broker",
        "refusal_count": 1,
    },
    SubscriptionFacts: {"topic": "orders"},
}


def _facts(given: dict[str, Any]) -> IntervalFacts:
    """Build facts: `..._s_ago` is seconds before the interval's end; offsets are [min, consumer, pull, max]."""
    return IntervalFacts(
        cluster="demo",
        interval=Interval(START),
        now=END,
        queues=tuple(_queue(entry) for entry in given.get("queues", ())),
        groups=tuple(_group(entry) for entry in given.get("groups", ())),
        offset_moves=tuple(_move(entry) for entry in given.get("offset_moves", ())),
        gaps=tuple(_record(CollectionGap, entry) for entry in given.get("gaps", ())),
        unseen_broker_names=frozenset(given.get("unseen_broker_names", ())),
        cluster_unseen=given.get("cluster_unseen", False),
        logs_read=given.get("logs_read", False),
        topics=tuple(_record(TopicFacts, entry) for entry in given.get("topics", ())),
        brokers=tuple(_record(BrokerFacts, entry) for entry in given.get("brokers", ())),
        cluster_facts=_record(ClusterFacts, given["cluster_facts"]) if "cluster_facts" in given else None,
        lock_waits=tuple(_record(LockWaitFacts, entry) for entry in given.get("lock_waits", ())),
        unseen_brokers=tuple(_record(UnseenBrokerFacts, entry) for entry in given.get("unseen_brokers", ())),
        traffic_hours=tuple(_record(TrafficHour, entry) for entry in given.get("traffic_hours", ())),
        subscriptions=tuple(_record(SubscriptionFacts, entry) for entry in given.get("subscriptions", ())),
        online_groups=tuple(_record(OnlineGroupFacts, entry) for entry in given.get("online_groups", ())),
        log_lines=tuple(_log_line(entry) for entry in given.get("log_lines", ())),
    )


def _record(kind: type, entry: dict[str, Any]) -> Any:
    """Build a typed record by its field names: `x_s_ago` gives x_at, a list a tuple; the rest stays as it is."""
    return kind(**{**UNSAID.get(kind, {}), **dict(_field(*item) for item in entry.items())})


def _field(name: str, value: Any) -> tuple[str, Any]:
    if name.endswith("_s_ago"):
        moment = name.removesuffix("_s_ago")
        return moment if moment.endswith("_since") else f"{moment}_at", END - timedelta(seconds=value)
    return name, tuple(value) if isinstance(value, list) else value


def _log_line(entry: dict[str, Any]) -> LogLineFacts:
    """Build lines of one kind; `lines` and `spell` are [count, seconds ago of the first, and of the last]."""
    count, first, last = entry["lines"]
    spell_count, spell_first = entry.get("spell", (count, first))
    return _record(  # type: ignore[no-any-return]
        LogLineFacts,
        {
            "topic": None,
            "source": "broker-a-0",
            "broker_name": "broker-a",
            "queue_id": None,
            **{name: value for name, value in entry.items() if name not in ("lines", "spell", "fields")},
            "line_count": count,
            "first_s_ago": first,
            "last_s_ago": last,
            "spell_line_count": spell_count,
            "spell_first_s_ago": spell_first,
            "newest_fields_json": json.dumps(entry.get("fields", {})),
        },
    )


def _queue(entry: dict[str, Any]) -> QueueFacts:
    """Build a suspect queue; `samples` are [seconds ago, min, consumer, pull, max], which its window is folded of."""
    samples = entry.get("samples", ())
    if samples:
        entry = {"offsets": samples[-1][1:], **entry, "window": rebuild(_sample(*one) for one in samples)}
        del entry["samples"]
    min_offset, consumer_offset, pull_offset, max_offset = entry["offsets"]
    offsets = QueueOffsets(min_offset, max_offset, consumer_offset, pull_offset)
    violations = tuple(violation.value for violation in offsets.order_violations())
    said = {name: value for name, value in entry.items() if name not in ("offsets", "queue", "topic")}
    fixed = {"message_queue": _message_queue(entry), "offsets": offsets, "violated_invariants": violations}
    return QueueFacts(
        **{"last_timestamp": None, "lag_ms": None, **fixed, **dict(_field(*item) for item in said.items())}
    )


def _sample(
    s_ago: float, min_offset: int, consumer_offset: int | None, pull_offset: int | None, max_offset: int
) -> tuple[datetime, Sample]:
    at = END - timedelta(seconds=s_ago)
    read = dict.fromkeys(("consumer_offset_read_at", "pull_offset_read_at", "max_offset_read_at"), at)
    return at, Sample(min_offset, max_offset, consumer_offset, pull_offset, **read)  # type: ignore[arg-type]


def _group(entry: dict[str, Any]) -> GroupFacts:
    unknown = dict.fromkeys(
        ("lag", "effective_lag", "inflight", "available", "lost", "lag_ms", "online_client_count", "message_model")
    )
    counts = {"queue_count": 4, "unknown_queue_count": 0, "never_committed_queue_count": 0}
    said = dict(_field(*item) for item in entry.items())
    return GroupFacts(**{"topic": "orders", "topic_kind": "normal", **unknown, **counts, **said})  # type: ignore[arg-type]


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
    if "brokers" in wanted:
        shown["brokers"] = sorted(finding.broker_names)
    return shown


def _untold(entry: CannotTell, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return of what a rule cannot tell what the case wants to know."""
    told = {"consumer_group": entry.consumer_group, "brokers": sorted(entry.broker_names), "because": entry.because}
    return {name: value for name, value in told.items() if name in wanted}


def _cases(*saying: str) -> list[Any]:
    """Return the cases as parameters; with `saying`, those that have one of these keys."""
    return [
        pytest.param(file.stem, case, id=f"{file.stem}: {case['why']}")
        for file in sorted(CASES.glob("*.yml"))
        for case in yaml.safe_load(file.read_text(encoding="utf-8"))
        if not saying or any(key in case for key in saying)
    ]


@pytest.mark.parametrize(("rule_id", "case"), _cases())
def test_a_case_gives_exactly_the_findings_that_it_says(rule_id: str, case: dict[str, Any]) -> None:
    found, _ = look(_facts(case["facts"]), _config(case.get("config", [])))
    findings = [finding for finding in found if finding.rule.id == rule_id]
    expected = case["expect"] or []
    shown = [_shown(finding, wanted) for finding, wanted in zip(findings, expected, strict=False)]
    assert (shown, len(findings)) == (expected, len(expected)), [finding.cause for finding in findings]


@pytest.mark.parametrize(("rule_id", "case"), _cases("cannot_tell"))
def test_a_case_leaves_untold_exactly_what_it_says(rule_id: str, case: dict[str, Any]) -> None:
    _, cannot_tell = look(_facts(case["facts"]), _config(case.get("config", [])))
    untold = [entry for entry in cannot_tell if entry.rule_id == rule_id]
    expected = case["cannot_tell"] or []
    shown = [_untold(entry, wanted) for entry, wanted in zip(untold, expected, strict=False)]
    assert (shown, len(untold)) == (expected, len(expected)), untold


@pytest.mark.parametrize(("rule_id", "case"), _cases("explains", "others"))
def test_a_case_explains_and_leaves_exactly_what_it_says(rule_id: str, case: dict[str, Any]) -> None:
    findings = judge(_facts(case["facts"]), _config(case.get("config", []))).findings
    explains = sorted(
        f"{one.rule_id} {one.consumer_group or '-'} {one.topic or '-'}"
        for finding in findings
        for one in finding.explains
        if finding.rule.id == rule_id
    )
    others = sorted({finding.rule.id for finding in findings} - {rule_id})
    shown = {"explains": explains, "others": others}
    assert {name: shown[name] for name in shown if name in case} == {name: case[name] for name in shown if name in case}


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_each_rule_has_a_case_that_fires_and_one_that_does_not(rule: Any) -> None:
    cases = yaml.safe_load((CASES / f"{rule.id}.yml").read_text(encoding="utf-8"))
    assert any(case["expect"] for case in cases)
    assert sum(not case["expect"] for case in cases) >= 2


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_each_rule_says_that_it_cannot_tell_of_brokers_that_were_not_seen(rule: Any) -> None:
    about_the_round = OF_THE_ROUND.intersection(rule.needs)
    for given in ({"unseen_broker_names": ["broker-a"]}, {"cluster_unseen": True}):
        _, cannot_tell = look(_facts(given), _config([]))
        assert bool(about_the_round) != (rule.id in {entry.rule_id for entry in cannot_tell})


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
