"""Whole rounds with POP groups and lite topics, against brokers and a proxy on real sockets."""

from __future__ import annotations

from typing import Any

from offsetguard.collect.manifest import Manifest
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.judge.rules import consumer_offline
from offsetguard.judge.rules.accumulation import find
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.tables import LANDED, QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.broker import ScriptedBroker
from offsetguard_peers.scripted.rounds import Play, Rounds, config_for

CONFIG = config_for("127.0.0.1:9")
POPS = {("GROUP_CK_NUMS", "jobs@workers"): 0.0}
EVERYBODY = {"share_rounds": 1}


def new_broker(**others: Any) -> ScriptedBroker:
    """Make a broker of 5.5.0."""
    return ScriptedBroker(
        "broker-a", runtime={"brokerVersionDesc": "V5_5_0", "earliestMessageTimeStamp": "-1"}, **others
    )


def popping_broker(**others: Any) -> ScriptedBroker:
    topics = {"jobs": [(0, 25), (0, 25)], "%RETRY%workers_jobs": [(0, 5)]}
    return new_broker(topics=topics, committed={("jobs", "workers"): {0: 20, 1: 25}}, **others)


def facts_of(rounds: Rounds, manifest: Manifest) -> IntervalFacts:
    rows = {table.name: rounds.rows(table) for table in LANDED}
    return facts_from_snapshot(manifest, rows, CONFIG, rounds.interval)


def told(rounds: Rounds, *names: str, group: str = "workers") -> tuple[object, ...]:
    return tuple(rounds.group(group)[name] for name in names)


def test_statistics_of_a_suspect_tell_that_it_pops_and_nobody_calls_it_offline(play: Play) -> None:
    rounds = play(popping_broker(stats=POPS))
    manifest = rounds.run()
    assert told(rounds, "consumption", "consumption_evidence") == ("pop", "pop_statistics")
    assert told(rounds, "pop_available", "pop_inflight", "online_client_count") == (5 + 5, None, None)
    assert {queue["pull_offset"] for queue in rounds.rows(QUEUE_SNAPSHOTS)} == {None}
    (finding,) = find(facts_of(rounds, manifest), CONFIG)
    assert (finding.variant, finding.figures["inflight"]) == ("clients_unknown", None)


def test_a_suspect_that_never_popped_may_be_called_offline(play: Play) -> None:
    rounds = play(popping_broker())
    manifest = rounds.run()
    assert told(rounds, "consumption", "online_client_count") == (None, 0)
    (finding,) = consumer_offline.find(judge_queues(facts_of(rounds, manifest), CONFIG), CONFIG)
    assert finding.consumer_group == "workers"


def test_a_suspect_for_whose_statistics_there_was_no_place_is_not_called_offline(play: Play) -> None:
    rounds = play(popping_broker())
    rounds.run(collection={"detail_groups": 0, "share_rounds": 1_000_000_000})
    assert told(rounds, "consumption", "online_client_count", "in_detail") == (None, None, False)


def test_what_was_recognised_is_remembered_and_asked_about_in_detail_although_nothing_waits(play: Play) -> None:
    broker = popping_broker(stats=dict(POPS))
    rounds = play(broker)
    rounds.run()
    broker.committed["jobs", "workers"] = {0: 25, 1: 25}  # everything is handed out
    broker.committed["%RETRY%other", "other"] = {0: 0}
    broker.stats.clear()  # the broker was restarted
    rounds.run()
    assert told(rounds, "consumption", "consumption_evidence") == ("pop", "remembered")
    assert told(rounds, "pop_available", "pop_inflight") == (0 + 5, None)
    assert told(rounds, "suspect_reason", "in_detail") == ("pop", True)


def test_members_come_from_the_proxy_that_the_configuration_names(play: Play) -> None:
    behind = ScriptedBroker("proxy", subscriptions={"workers": ["jobs"]})
    rounds = play(popping_broker())
    manifest = rounds.run(proxies=[rounds.serve(behind.play).address])
    assert manifest.gaps == ()
    assert told(rounds, "online_client_count") == (1,)
    assert set(behind.asked) == {RequestCode.GET_CONSUMER_CONNECTION_LIST}


def test_a_metrics_page_that_nobody_serves_is_a_gap_and_the_figure_unknown(play: Play) -> None:
    rounds = play(popping_broker(stats=POPS), metrics_urls={"broker-a": "http://127.0.0.1:1/metrics"})
    manifest = rounds.run()
    (gap,) = manifest.gaps
    assert (gap.broker_name, gap.address) == ("broker-a", "127.0.0.1:1")
    assert "check metrics_urls in the configuration" in gap.reason
    assert manifest.unseen_broker_names == ()
    assert told(rounds, "pop_inflight") == (None,)


def test_lite_topics_are_folded_into_their_group(play: Play) -> None:
    lite_topics = [f"%LMQ%$chat$session-{number}" for number in range(7)]
    topics = {"chat": [(0, 24), (0, 36)], **{topic: [(0, 5)] for topic in lite_topics}}
    broker = new_broker(topics=topics, committed={(topic, "readers"): {0: 3} for topic in lite_topics})
    rounds = play(broker)
    rounds.run()
    names = ("lite_topic_count", "lite_lag", "consumption", "consumption_evidence")
    assert told(rounds, *names, group="readers") == (7, None, "pop", "lite_topics")
    names = ("pop_available", "pop_inflight", "online_client_count")
    assert told(rounds, *names, group="readers") == (None, None, None)
    assert rounds.rows(QUEUE_SNAPSHOTS) == []
    rounds.run(collection=EVERYBODY)
    assert told(rounds, "lite_lag", group="readers") == (7 * 2,)


def test_offsets_that_vanish_with_a_switch_of_files_are_explained_once(play: Play) -> None:
    broker = popping_broker()
    rounds = play(broker)
    rounds.run()
    broker.settings, broker.committed = b"enableLmq=true\n", {}
    (gap,) = rounds.run().gaps
    assert (gap.broker_name, gap.what) == ("broker-a", "committed offsets")
    assert gap.reason.startswith("all 2 committed offsets are gone, and enableLmq is on")
    assert "lmqConsumerOffset.json" in gap.reason
    assert rounds.run().gaps == ()
