"""What a judged message holds: evidence, links, what explains it and what could not be told; info is for nobody."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.facts.interval import TrafficHour
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.views import NotificationReason
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import START, a_queue, config, facts, group, judge


def test_evidence_is_capped_and_counted(engine: Engine) -> None:
    queues = tuple(
        a_queue("a", MessageQueue("orders", "broker-a", n), QueueOffsets(0, 1_000 + n // 29, 0)) for n in range(30)
    )
    (message,) = judge(engine, facts(0, group("a", 30_000), queues=queues)).messages
    (incident,) = message.view.firing
    assert (len(incident.queues), incident.queue_count, incident.queues[0].queue_id) == (20, 30, 29)


@pytest.mark.parametrize("page_url", ["http://airflow.example.org:8080", "http://airflow.example.org:8080/"])
def test_a_message_links_the_page_and_the_clusters_data_docs(engine: Engine, page_url: str) -> None:
    (message,) = judge(engine, facts(0, group("a", 20_000)), config=config(page_url=page_url)).messages
    assert message.view.data_docs_url == "http://airflow.example.org:8080/offsetguard/data-docs/demo/index.html"


SURGE = TrafficHour("orders", START, hour_tps=500.0, usual_tps=100.0, usual_spread_tps=5.0, week_count=4)


def slave(**figures: Any) -> BrokerFacts:
    """Give a slave that lacks 3 GB, beside a master that writes nothing."""
    told = {"answered": True, "clock_ahead_ms": 0, "page_cache_lock_time_ms": 0, **figures}
    return BrokerFacts(broker_name="broker-a", broker_id=1, listed=True, slave_behind_bytes=3_000_000_000, **told)


def test_what_is_only_info_is_kept_as_history_and_told_to_nobody(engine: Engine) -> None:
    report = judge(engine, facts(0, traffic_hours=(SURGE,)))
    assert [(one.rule.id, one.severity.value) for one in report.findings] == [("traffic_surge", "info")]
    assert (len(report.opened), report.messages, report.decisions) == (1, (), ())
    assert [one.subject.rule_id for one in newest_incidents(engine)] == ["traffic_surge"]
    ended = judge(engine, facts(70))
    assert ([one.subject.rule_id for one in ended.resolved], ended.messages) == (["traffic_surge"], ())


def test_trouble_that_turned_harmless_is_told_as_over_and_as_new_when_it_turns_back(engine: Engine) -> None:
    (first,) = judge(engine, facts(0, brokers=(slave(),))).messages
    (over,) = judge(engine, facts(1, brokers=(slave(boot_at=START),))).messages
    assert (first.view.severity, over.view.reason) == ("warning", NotificationReason.ALL_RESOLVED)
    assert over.view.resolved[0].resolution == (
        "needs nobody any more: slave broker-a/1 was started lately and is 2.8 GiB behind"
    )
    assert judge(engine, facts(2, brokers=(slave(boot_at=START),))).messages == ()
    (back,) = judge(engine, facts(3, brokers=(slave(),))).messages
    assert back.view.reason is NotificationReason.FIRST
    assert back.view.firing[0].opened_at == START, "it never ended"


def test_a_message_names_what_could_not_be_told_of_its_brokers(engine: Engine) -> None:
    report = judge(engine, facts(0, brokers=(slave(page_cache_lock_time_ms=None),)))
    untold = "broker-a/1 did not tell how its store does"
    assert ("store_slow", untold) in [(one.rule_id, one.because) for one in report.cannot_tell]
    assert f"store_slow: {untold}" in report.messages[0].view.firing[0].cannot_tell


def test_a_message_names_what_its_finding_explains(engine: Engine) -> None:
    judge(engine, facts(0, brokers=(slave(),)))
    report = judge(engine, facts(1, brokers=(slave(),), unseen_broker_names=frozenset({"broker-a"})))
    (message,) = report.messages
    (shown,) = message.view.firing
    assert message.view.rule_id == "broker_unreachable"
    assert shown.explains == ("slave_behind: slave broker-a/1 is 2.8 GiB behind its master",)
    goes_on = {one.subject.rule_id: one.seen_count for one in newest_incidents(engine)}
    assert goes_on == {"broker_unreachable": 1, "slave_behind": 2}, "what is explained has not recovered"
    judge(engine, facts(2))
    over = judge(engine, facts(3))
    assert {one.subject.rule_id for one in over.resolved} == {"broker_unreachable", "slave_behind"}
