"""Everything that a round did not see is named, one by one; against scripted brokers."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from offsetguard.collect.manifest import GAPS_FILE_NAME, Gap
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.peer import Conversation
from offsetguard_peers.scripted.rounds import Rounds, asked, broker_with, run


def test_everything_that_is_missing_is_named_one_by_one(tmp_path: Path) -> None:
    broker = broker_with(10, 10)
    broker.topics |= {f"topic-{number}": [(0, 1)] for number in range(300)}

    async def die_after_the_third_topic(conversation: Conversation, request: RemotingCommand) -> bool:
        if asked(broker, RequestCode.GET_TOPIC_STATS_INFO) > 3:
            conversation.close()
            return True
        return False

    broker.trouble = die_after_the_third_topic

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        manifest = await rounds.run()
        lines = (rounds.folder / GAPS_FILE_NAME).read_text(encoding="utf-8").splitlines()
        named = [TypeAdapter(Gap).validate_json(line) for line in lines]
        unseen = {row["topic"] for row in rounds.rows(TOPIC_QUEUE_SNAPSHOTS) if row["read_at"] is None}
        assert len(unseen) > 250
        assert all(any(f"topic={topic})" in gap.what for gap in named) for topic in unseen)
        assert len(manifest.gaps) == manifest.gap_count < 20, "the manifest sums up"
        assert sum(manifest.gap_kinds.values()) == len(named)
        assert all(gap.reason and gap.broker_name == "broker-a" for gap in named)


def test_a_broker_that_dies_early_leaves_a_list_of_everything_that_it_was_not_asked_any_more(tmp_path: Path) -> None:
    broker = broker_with(10, 10)
    broker.groups = {f"group-{number}" for number in range(40)}

    async def die_at_the_offsets(conversation: Conversation, request: RemotingCommand) -> bool:
        if asked(broker, RequestCode.GET_ALL_CONSUMER_OFFSET):
            conversation.close()
            return True
        return False

    broker.trouble = die_at_the_offsets

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        lines = (rounds.folder / GAPS_FILE_NAME).read_text(encoding="utf-8").splitlines()
        named = [TypeAdapter(Gap).validate_json(line).what.removesuffix(", not sent") for line in lines]
        expected = {f"GET_CONSUMER_CONNECTION_LIST(consumerGroup={group})" for group in (*broker.groups, "billing")}
        assert expected | {"GET_ALL_CONSUMER_OFFSET()", "GET_TOPIC_STATS_INFO(topic=orders)"} <= set(named)
        assert len(named) == len(set(named)), "each once"


def test_a_complete_round_has_no_file_of_gaps(tmp_path: Path) -> None:
    @run(tmp_path, broker_with(10, 10))
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        assert not (rounds.folder / GAPS_FILE_NAME).exists()
