"""Each receiver is told in the language and by the clock of the route, also of what was opened before."""

from sqlalchemy import Engine

from offsetguard.catalogue import Sentence
from offsetguard.config import Config
from offsetguard.model.views import MessageView
from offsetguard.store import incidents
from offsetguard.store.database import reading
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard_peers.judging.records import config, facts, group, judge

CONFIG = Config.model_validate(
    config().model_dump() | {"routes": [{"team": "billing", "language": "zh", "time_zone": "Asia/Shanghai"}]}
)


def views(engine: Engine, minute: int, *names: str) -> dict[str, MessageView]:
    """Judge a minute with groups that are 20,000 messages behind; return what each receiver is told."""
    report = judge(engine, facts(minute, *(group(name, 20_000) for name in names)), config=CONFIG)
    return {message.receiver: message.view for message in report.messages}


def test_one_interval_is_told_to_each_team_in_its_language(engine: Engine) -> None:
    told = views(engine, 0, "audit", "billing")
    english, chinese = told["operations@example.org"], told["one@example.org"]
    assert (english.title, chinese.title) == ("consumers are offline", "消费者不在线")
    assert english.firing[0].summary == "audit is offline and 20,000 messages behind on orders"
    assert chinese.firing[0].summary.startswith("billing 不在线")
    assert "20,000 条消息" in chinese.firing[0].cause
    assert english.firing[0].commands == ("mqadmin consumerProgress -n 10.0.0.1:9876 -g audit",), "of no known cluster"
    assert (chinese.language, chinese.time_zone) == ("zh", "Asia/Shanghai")


def test_an_end_is_told_in_the_language_of_the_route_from_what_the_database_kept(engine: Engine) -> None:
    """Between the intervals only the database knows the incident: its figures, and how it ended."""
    views(engine, 0, "billing", "other")
    (ending,) = (told["one@example.org"] for minute in (1, 2) if (told := views(engine, minute, "other")))
    (ended,) = ending.resolved
    assert ended.resolution == "消费组 billing 已不存在：Broker 上没有它的位点"
    with reading(engine) as session:
        (kept,) = incidents.by_id(session, [ended.incident_id]).values()
    assert isinstance(kept.resolution, Sentence)
    assert kept.resolution == "consumer group billing is gone: the brokers keep no offsets of it"
    assert kept.evidence.text_figures["effective_lag"] == 20_000


def test_what_a_command_deletes_is_said_in_the_language_of_the_reader(engine: Engine) -> None:
    broker = BrokerFacts(broker_name="broker-a", broker_id=0, listed=True, answered=True, rocketmq_cluster="demo")
    given = facts(0, group("audit", 20_000), group("billing", 20_000), brokers=(broker,))
    told = {message.receiver: message.view for message in judge(engine, given, config=CONFIG).messages}
    english, chinese = (told[name].firing[0].commands[-1] for name in ("operations@example.org", "one@example.org"))
    assert english.endswith(" -g audit -r true  # deletes the group and its offsets")
    assert chinese.endswith(" -g billing -r true  # 删除该消费组及其位点")
