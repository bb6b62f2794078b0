"""Where the settings of a group let no client of it pull, as masters' answers say."""

from datetime import UTC, datetime
from typing import Any

from offsetguard.collect.broker_reading import Answer, BrokerReading
from offsetguard.collect.group_members import GroupMembers, missing_members
from offsetguard.collect.refused_pulls import refusing_columns
from offsetguard.collect.replica import Replica
from offsetguard.sources.rocketmq.brokers import subscription_group_table
from offsetguard.sources.rocketmq.brokers import topic_config_table as topics_of
from offsetguard.sources.rocketmq.consumers import consumer_connections
from offsetguard.sources.rocketmq.offset_table import all_consumer_offsets

NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
TOPICS = topics_of(b'{"topicConfigTable":{"orders":{"perm":6,"readQueueNums":4,"writeQueueNums":4}}}')
MEMBERS = GroupMembers(2, "CLUSTERING", "CONSUME_PASSIVELY", frozenset({"orders"}))
BROADCASTING = GroupMembers(2, "BROADCASTING", "CONSUME_PASSIVELY", frozenset({"orders"}))
MAKES, MAKES_NONE = {"autoCreateSubscriptionGroup": "true"}, {"autoCreateSubscriptionGroup": "false"}

NOTHING = {"consume_enabled": True, "consume_broadcast_enabled": True}


def master(name: str, group: str | None, **read: Any) -> BrokerReading:
    """Return a master that says this of the group, as JSON; None: it does not know the group."""
    listed = "" if group is None else f'"billing":{group}'
    groups = subscription_group_table(f'{{"subscriptionGroupTable":{{{listed}}}}}'.encode())
    return BrokerReading(Replica(name, 0, "h:1"), **{"groups": groups, "topics": TOPICS, **read})


def refused(*masters: BrokerReading, members: GroupMembers | None = MEMBERS) -> dict[str, Any]:
    return {name: value for name, value in refusing_columns("billing", masters, members).items() if value is not None}


def test_one_master_that_refuses_is_enough_and_its_settings_are_kept_by_what_lets_it_consume() -> None:
    off = '{"consumeEnable":false,"retryMaxTimes":3,"consumeMessageOrderly":true,"consumeBroadcastEnable":false}'
    assert refused(master("broker-a", "{}"), master("broker-b", off)) == {
        "consume_enabled": False,
        "consume_broadcast_enabled": False,
        "disabled_broker_names": ["broker-b"],
        "enabling_options": "-s true -m true -d false -o true -q 1 -r 3 -i 0 -w 1 -a true",
    }
    assert refused(master("broker-a", "{}"), master("broker-b", None, groups=None)) == NOTHING


def test_the_command_has_the_retry_policy_and_what_it_cannot_keep_is_named() -> None:
    """5.5.0: without -p it sets the default policy; for these others it has no option."""
    policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2}}'
    off = f'{{"consumeEnable":false,"groupRetryPolicy":{policy},"consumeTimeoutMinute":60,"groupSysFlag":0}}'
    found = refused(master("broker-a", off))
    assert f"-r 16 -p '{policy}' -i 0" in found["enabling_options"]
    assert found["reset_settings"] == "consumeTimeoutMinute"
    usual = '{"consumeEnable":false,"groupRetryPolicy":{"type":"CUSTOMIZED"},"consumeTimeoutMinute":15}'
    assert refused(master("broker-a", usual)).keys() & {"reset_settings"} == set()
    assert "-p" not in refused(master("broker-a", usual))["enabling_options"]


def test_what_lets_a_group_consume_in_any_order_is_known_of_one_that_consumes_in_order() -> None:
    found = refused(master("broker-a", "{}"), master("broker-b", '{"consumeMessageOrderly":true,"retryMaxTimes":3}'))
    assert found["enabling_options"] == "-s true -m true -d true -o true -q 1 -r 3 -i 0 -w 1 -a true"
    assert "enabling_options" not in refused(master("broker-a", '{"consumeMessageOrderly":false}'))


def test_a_topic_may_be_forbidden_to_a_group_by_the_bit_for_reading() -> None:
    table = '{"subscriptionGroupTable":{"billing":{},"other":{}},"forbiddenTable":{"billing":{"orders":4,"audit":2}}}'
    groups = subscription_group_table(table.encode())
    assert refused(master("broker-a", None, groups=groups))["forbidden_topics"] == ["broker-a orders"]
    odd = subscription_group_table(b'{"subscriptionGroupTable":{"billing":{}},"forbiddenTable":{"billing":{"a":"x"}}}')
    assert (odd.keys(), list(odd.unreadable)) == ({"billing"}, ["forbiddenTable of billing"])


def test_broadcasting_is_refused_only_to_who_broadcasts() -> None:
    unicast = master("broker-a", '{"consumeBroadcastEnable":false}')
    assert refused(unicast) == {"consume_enabled": True, "consume_broadcast_enabled": False}
    found = refused(unicast, members=BROADCASTING)
    assert (found["no_broadcast_broker_names"], found["enabling_options"][:24]) == (
        ["broker-a"],
        "-s true -m true -d true ",
    )


def test_a_master_lacks_a_group_only_where_it_makes_none_and_has_something_of_it() -> None:
    here, committed = master("broker-a", "{}"), all_consumer_offsets(b'{"offsetTable":{"orders@billing":{0:1}}}')
    assert refused(here, master("broker-b", None, settings=MAKES_NONE))["uncreated_broker_names"] == ["broker-b"]
    others: list[dict[str, Any]] = [{"settings": MAKES}, {"settings": None}, {"settings": MAKES_NONE, "topics": {}}]
    assert [refused(here, master("broker-b", None, **read)) for read in others] == [NOTHING] * 3
    offline = master("broker-b", None, settings=MAKES_NONE, committed=Answer(committed, NOW))
    assert refused(offline, members=None) == {
        "uncreated_broker_names": ["broker-b"],
        "enabling_options": "-s true -m true -d true",
    }


def test_members_are_not_missing_where_nobody_asked_for_them() -> None:
    """Where a broker makes no group, one that it does not know may have had all heartbeats: 4.x lists clients then."""
    seen = consumer_connections(
        b'{"connectionSet":[{"clientId":"c1"}],"subscriptionTable":{"orders":{"topic":"orders","subString":"*"}}}'
    )
    here = master("broker-a", "{}", connections={"billing": seen})
    assert missing_members("billing", [here, master("broker-b", None, settings=MAKES)]) == [("c1", "broker-b")]
    for settings in (MAKES_NONE, None):
        assert missing_members("billing", [here, master("broker-b", None, settings=settings)]) is None


def test_a_topic_that_clients_subscribe_to_is_missing_where_no_master_has_it_and_all_said_what_they_have() -> None:
    topics = frozenset({"orders", "gone", "%RETRY%billing", "%LMQ%$chat$1", "TBW102"})
    members = GroupMembers(2, "CLUSTERING", "CONSUME_PASSIVELY", topics)
    here, there = master("broker-a", "{}"), master("broker-b", "{}", topics={})
    assert refused(here, there, members=members)["missing_topics"] == ["uncommitted gone"]
    committed = Answer(all_consumer_offsets(b'{"offsetTable":{"gone@billing":{0:1}}}'), NOW)
    kept = master("broker-b", "{}", topics={}, committed=committed)
    assert refused(here, kept, members=members)["missing_topics"] == ["committed gone"]
    has_it = master("broker-b", "{}", topics={"gone": TOPICS["orders"]})
    for other in (has_it, master("broker-b", "{}", topics=None)):
        assert "missing_topics" not in refused(here, other, members=members)
