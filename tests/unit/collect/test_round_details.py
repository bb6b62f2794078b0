"""What a round asks beyond the base, and of whom; against scripted brokers."""

from offsetguard.collect.landing import read_manifest
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.tables import BROKER_STATS, CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS
from offsetguard_peers.scripted.broker import ScriptedBroker, when
from offsetguard_peers.scripted.rounds import NO_SHARE, Play, asked, broker_with


def test_a_healthy_group_costs_nothing_but_the_base_and_says_that_it_was_not_looked_at(play: Play) -> None:
    broker = broker_with(10, 10)
    broker.stats = {("GROUP_GET_NUMS", "orders@billing"): 1.0}
    rounds = play(broker)
    rounds.run()
    assert (rounds.group("billing")["in_detail"], rounds.group("billing")["suspect_reason"]) == (False, None)
    row = rounds.queue("billing")
    assert (row["consumer_offset"], row["max_offset"], row["pull_offset"]) == (10, 10, None)
    assert rounds.rows(BROKER_STATS) == []
    details = {RequestCode.GET_CONSUME_STATS, RequestCode.QUERY_CONSUME_TIME_SPAN}
    assert details.isdisjoint(broker.asked)


def test_a_group_in_trouble_is_asked_for_everything(play: Play) -> None:
    broker = broker_with(4, 10)
    broker.subscriptions = {"billing": ["orders"]}
    broker.stats = {("GROUP_GET_NUMS", "orders@billing"): 2.5, ("TOPIC_PUT_NUMS", "orders"): 7.0}
    broker.running_info = {
        "10.0.0.9@billing": (
            b'{"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{"cachedMsgCount":6,"commitOffset":4,'
            b'"locked":true,"droped":false,"lastPullTimestamp":1795214822995}},"properties":{"PROP_CONSUMEORDERLY":"true"},'
            b'"statusTable":{},"subscriptionSet":[{"topic":"orders","subString":"*","subVersion":1,"tagsSet":[],"codeSet":[]}]}'
        )
    }
    rounds = play(broker)
    manifest = rounds.run()
    group = rounds.group("billing")
    assert (group["in_detail"], group["suspect_reason"]) == (True, "waiting")
    assert rounds.queue("billing")["pull_offset"] == 4
    rates = {(row["stats_name"], row["stats_key"]): (row["counted"], row["tps"]) for row in rounds.rows(BROKER_STATS)}
    assert rates["GROUP_GET_NUMS", "orders@billing"] == (True, 2.5)
    assert rates["TOPIC_PUT_NUMS", "orders"] == (True, 7.0)
    assert rates["SNDBCK_PUT_NUMS", "orders@billing"] == (False, 0.0), "nothing counted yet is an answer"
    (client,) = rounds.rows(CLIENT_SNAPSHOTS)
    assert (client["orderly"], client["cached_message_count"], client["own_subscriptions"]) == (
        True,
        6,
        ["orders *"],
    )
    (held,) = rounds.rows(CLIENT_QUEUE_SNAPSHOTS)
    assert (held["topic"], held["queue_id"], held["locked"], held["commit_offset"]) == ("orders", 0, True, 4)
    assert manifest.complete


def test_a_client_that_hangs_is_not_waited_for(play: Play) -> None:
    broker = broker_with(4, 10)
    broker.subscriptions = {"billing": ["orders"]}
    broker.trouble = when(lambda request: request.code == RequestCode.GET_CONSUMER_RUNNING_INFO, lambda *_: None)
    rounds = play(broker, request_timeout_ms=60_000)
    manifest = rounds.run()
    (client,) = rounds.rows(CLIENT_SNAPSHOTS)
    assert "no answer within 0.5 s" in client["running_info_failure"]
    assert rounds.group("billing")["in_detail"]
    assert manifest.complete, "the client's failure, not the broker's"


def test_what_came_since_the_round_before_makes_nobody_suspect(play: Play) -> None:
    """A busy group always has something waiting: what was there a minute ago is consumed, so it keeps up."""
    broker = broker_with(100, 100)
    rounds = play(broker)
    rounds.run()
    broker.topics["orders"] = [(0, 250)]
    broker.committed["orders", "billing"] = {0: 240}
    rounds.run()
    assert rounds.group("billing")["suspect_reason"] is None
    assert not rounds.group("billing")["in_detail"]
    rounds.run()
    assert rounds.group("billing")["suspect_reason"] == "waiting", "the same ten messages, one round later"


def test_the_age_of_what_waits_is_asked_once_and_kept_while_the_offset_stays(play: Play) -> None:
    broker = broker_with(4, 10)
    rounds = play(broker)
    rounds.run()
    first = rounds.queue("billing")["oldest_unconsumed_at"]
    assert first is not None
    rounds.run()
    assert rounds.queue("billing")["oldest_unconsumed_at"] == first
    assert asked(broker, RequestCode.QUERY_CONSUME_TIME_SPAN) == 1
    broker.committed["orders", "billing"] = {0: 5}
    rounds.run()
    assert asked(broker, RequestCode.QUERY_CONSUME_TIME_SPAN) == 2
    assert rounds.queue("billing")["oldest_unconsumed_at"] > first


def test_the_age_of_what_retention_has_overtaken_is_known_in_every_round(play: Play) -> None:
    """The message at the consumer offset is gone, and the oldest one is another each time that retention moves on."""
    broker = broker_with(4, 10)
    broker.topics["orders"] = [(6, 10)]
    rounds = play(broker)
    for number in range(1, 4):
        rounds.run()
        assert rounds.queue("billing")["oldest_unconsumed_at"] is not None
        assert asked(broker, RequestCode.QUERY_CONSUME_TIME_SPAN) == number


def test_more_suspects_than_places_take_turns_and_are_counted(play: Play) -> None:
    broker = ScriptedBroker("broker-a", topics={"orders": [(0, 100)]}, pulled={})
    broker.committed = {("orders", f"group-{number:02}"): {0: number} for number in range(20)}
    rounds = play(broker, collection={**NO_SHARE, "detail_groups": 4})
    looked_at = set()
    for _ in range(20):
        manifest = rounds.run()
        groups = rounds.rows(GROUP_SNAPSHOTS)
        detailed = {row["consumer_group"] for row in groups if row["in_detail"]}
        assert len(detailed) == 4
        assert {"group-00", "group-01", "group-02"} <= detailed, "the worst are looked at in every round"
        assert all(row["suspect_reason"] == "waiting" for row in groups if not row["system_group"])
        (left_out,) = [one for one in manifest.not_asked if one.what == "details of suspect groups"]
        assert left_out.count == 16
        assert "detail_groups allows 4" in left_out.reason
        looked_at |= detailed
    assert len(looked_at) == 20
    assert manifest.complete, "what is left out on purpose is no gap"


def test_every_healthy_group_has_its_turn(play: Play) -> None:
    broker = ScriptedBroker("broker-a", topics={"orders": [(0, 5)]}, pulled={})
    broker.committed = {("orders", f"group-{number:02}"): {0: 5} for number in range(12)}
    rounds = play(broker, collection={"share_rounds": 3})
    seen: list[str] = []
    for _ in range(3):
        rounds.run()
        seen += [row["consumer_group"] for row in rounds.rows(GROUP_SNAPSHOTS) if row["in_detail"]]
    assert sorted(seen) == sorted(f"group-{number:02}" for number in range(12))


def test_a_suspect_without_a_place_is_not_asked_as_one_of_the_share_either(play: Play) -> None:
    """A broker of which every group is in trouble is asked about no more of them in a round than `detail_groups`."""
    broker = broker_with(4, 10)
    broker.pulled = None
    broker.committed["orders", "healthy"] = {0: 10}
    broker.committed |= {("orders", f"late-{number}"): {0: 4} for number in range(5)}
    rounds = play(broker, collection={"share_rounds": 1, "detail_groups": 2})
    manifest = rounds.run()
    rows = rounds.rows(GROUP_SNAPSHOTS)
    suspects = {row["consumer_group"] for row in rows if row["suspect_reason"]}
    in_detail = {row["consumer_group"] for row in rows if row["in_detail"]}
    assert len(suspects) == 6
    assert len(in_detail & suspects) == 2
    assert "healthy" in in_detail
    assert {one.what: one.count for one in manifest.not_asked}["details of suspect groups"] == 4
    assert asked(broker, RequestCode.GET_CONSUME_STATS) == len(in_detail)


def test_a_group_keeps_when_nothing_of_it_was_committed_yet(play: Play) -> None:
    first, second = broker_with(10, 10), broker_with(10, 10, name="broker-b")
    second.groups.add("shipping")  # its settings; it has never committed
    rounds = play(first, second)
    rounds.run()
    assert rounds.group("billing")["uncommitted_at"] is None, "nobody looked before"
    seen_at = rounds.group("shipping")["uncommitted_at"]
    assert seen_at is not None
    first.committed["orders", "shipping"] = first.committed["orders", "audit"] = {0: 3}
    finished_at = read_manifest(rounds.folder).finished_at
    for _ in range(2):
        rounds.run()
        assert rounds.group("shipping")["uncommitted_at"] == seen_at
        assert rounds.group("audit")["uncommitted_at"] == finished_at, "the round that did not know it"
        assert rounds.group("billing")["uncommitted_at"] is None
    reachable, rounds.listed["broker-b"] = rounds.listed["broker-b"], "127.0.0.1:9"
    rounds.run()
    assert rounds.group("shipping")["uncommitted_at"] == seen_at
    first.committed["orders", "parcels"] = {0: 3}
    rounds.listed["broker-b"] = reachable
    rounds.run()
    assert rounds.group("parcels")["uncommitted_at"] is None, "the round before did not see broker-b"


def test_clients_that_are_not_asked_this_time_are_counted(play: Play) -> None:
    groups = ("audit", "billing", "mailer")
    broker = ScriptedBroker("broker-a", topics={"orders": [(0, 100)]}, pulled={})
    broker.committed = {("orders", group): {0: 10} for group in groups}
    broker.subscriptions = {group: ["orders"] for group in groups}
    rounds = play(broker, collection={**NO_SHARE, "running_info_clients": 1})
    manifest = rounds.run()
    assert asked(broker, RequestCode.GET_CONSUMER_RUNNING_INFO) == 1
    (left_out,) = [one for one in manifest.not_asked if one.what == "running info of clients"]
    assert left_out.count == 2
    assert "running_info_clients allows 1" in left_out.reason
