"""Topics and groups that a master had and has no longer: seen in the round after, also where it was away meanwhile."""

from datetime import timedelta
from pathlib import Path

from offsetguard.collect.manifest import Manifest, RequestLedger
from offsetguard.collect.vanished import MAX_REMEMBERED, remembering
from offsetguard.model.fact_records import UnseenBrokerFacts
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard_peers.scripted.broker import ScriptedBroker
from offsetguard_peers.scripted.peer import Conversation
from offsetguard_peers.scripted.rounds import INTERVAL, Play, healthy_broker


def names(manifest: Manifest) -> list[tuple[str, bool, str]]:
    return [(one.name, one.is_group, one.broker_name) for one in manifest.vanished]


def lose_everything(broker: ScriptedBroker) -> None:
    broker.topics, broker.committed, broker.pulled, broker.subscriptions = {}, {}, {}, {}


def test_what_a_master_has_no_longer_is_told_with_what_waited_until_it_is_back(play: Play) -> None:
    broker = healthy_broker()
    broker.subscriptions = {"billing": ["orders"]}
    rounds = play(broker)
    assert names(rounds.run()) == []
    topics, committed = broker.topics, broker.committed
    lose_everything(broker)
    gone = rounds.run()
    assert names(gone) == [("orders", False, "broker-a"), ("billing", True, "broker-a")]
    assert [(one.waiting_count, one.online, one.deleted_by) for one in gone.vanished] == [(5, True, None)] * 2
    assert rounds.run().vanished == gone.vanished, "it is still gone"
    broker.topics, broker.committed = topics, committed
    assert names(rounds.run()) == []


def test_a_line_of_the_log_that_comes_a_round_before_the_name_is_missed_says_who_did_it(
    play: Play, tmp_path: Path
) -> None:
    """Logs are read after the settings; and the master may be away in the round between."""
    log = tmp_path / "broker.log"
    source = {"name": "broker-a", "broker_name": "broker-a", "broker_id": 0, "time_zone": "UTC", "files": [str(log)]}
    deleted = "2026-11-21 10:40:10 INFO {} - delete subscription group OK, subscription group:SubscriptionGroupConfig"
    broker = healthy_broker()
    rounds = play(broker, logs=[source])
    log.write_text("")
    rounds.run()
    log.write_text(deleted.format("AdminBrokerThread_1") + "{groupName=billing, consumeEnable=true}\n")
    assert names(rounds.run()) == []

    async def closes(conversation: Conversation, _: RemotingCommand) -> bool:
        conversation.close()
        return True

    broker.trouble = closes
    rounds.run()
    broker.trouble = None
    lose_everything(broker)
    (topic, group) = rounds.run().vanished
    assert (topic.name, topic.deleted_by) == ("orders", None)
    assert (group.name, group.deleted_by) == ("billing", "AdminBrokerThread_1")
    assert group.deleted_at == INTERVAL.start + timedelta(seconds=70)
    assert rounds.run().deletions == (), "it is told of by now"


def test_a_failover_that_costs_a_round_hides_nothing(play: Play) -> None:
    broker = healthy_broker()
    rounds = play(broker)
    rounds.run()

    async def closes(conversation: Conversation, _: RemotingCommand) -> bool:
        conversation.close()
        return True

    broker.trouble = closes
    away = [rounds.run(), rounds.run()]
    assert [names(one) for one in away] == [[], []], "unknown is not gone"
    broker.trouble = None
    lose_everything(broker)
    assert names(rounds.run()) == [("orders", False, "broker-a"), ("billing", True, "broker-a")]


def test_a_master_that_does_not_say_what_it_has_has_lost_nothing(play: Play) -> None:
    broker = healthy_broker()
    rounds = play(broker)
    rounds.run()

    async def refuses(conversation: Conversation, request: RemotingCommand) -> bool:
        asked_for = {RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG}
        if request.code in asked_for:
            conversation.answer(request, code=1, remark="busy")
        return request.code in asked_for

    broker.trouble = refuses
    assert names(rounds.run()) == []


def test_after_a_day_it_was_removed_on_purpose(play: Play) -> None:
    broker = healthy_broker()
    rounds = play(broker)
    rounds.run()
    lose_everything(broker)
    assert names(rounds.run())
    assert names(rounds.run(minutes=round(timedelta(days=1) / timedelta(minutes=1)))) == []


def test_a_master_that_is_away_costs_manifests_no_more_than_some_names_and_the_others_are_counted() -> None:
    names = {"broker-a": frozenset(f"t{number:05}" for number in range(MAX_REMEMBERED + 7))}
    ledger = RequestLedger()
    away = [UnseenBrokerFacts("broker-a", unseen_since=None), UnseenBrokerFacts("broker-b", unseen_since=None)]
    one, other = remembering(away, (names, {}), ledger)
    assert (len(one.topics), one.created_groups, other.topics) == (MAX_REMEMBERED, (), ())
    assert [(left.what, left.count) for left in ledger.not_asked] == [
        ("names of topics and groups that broker-a had", 7)
    ]
