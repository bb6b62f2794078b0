"""Each receiver is told in the language and by the clock of the route, also of what was opened before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from offsetguard.catalogue import Sentence
from offsetguard.config import Config
from offsetguard.decide.judge import judge_interval
from offsetguard.facts.interval import IntervalFacts
from offsetguard.model.intervals import Interval
from offsetguard.model.views import MessageView
from offsetguard.store import incidents
from offsetguard.store.database import reading
from offsetguard_peers.judging.records import a_group

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
CONFIG = Config.model_validate(
    {
        "clusters": {"demo": {"name_servers": ["10.0.0.1:9876"]}},
        "teams": {"operations": {"mail": ["ops@example.org"]}, "billing": {"mail": ["billing@example.org"]}},
        "groups": [{"match": "billing*", "team": "billing"}],
        "routes": [{"team": "billing", "language": "zh", "time_zone": "Asia/Shanghai"}],
        "default_team": "operations",
        "delivery": {"group_interval_ms": 1},
    }
)


def facts(minute: int, *names: str) -> IntervalFacts:
    """Give groups without clients that are 20,000 messages behind."""
    interval = Interval(START + timedelta(minutes=minute))
    groups = tuple(a_group(name, 20_000) for name in names)
    return IntervalFacts("demo", interval, interval.end, groups=groups)


def told(engine: Engine, given: IntervalFacts) -> dict[str, MessageView]:
    """Judge an interval; return what each receiver is told."""
    report = judge_interval(engine, given, CONFIG, now=given.interval.end)
    return {message.receiver: message.view for message in report.messages}


def test_one_interval_is_told_to_each_team_in_its_language(engine: Engine) -> None:
    views = told(engine, facts(0, "audit", "billing"))
    english, chinese = views["ops@example.org"], views["billing@example.org"]
    assert (english.title, chinese.title) == ("consumers are offline", "消费者不在线")
    assert english.firing[0].summary == "audit is offline and 20,000 messages behind on orders"
    assert chinese.firing[0].summary.startswith("billing 不在线")
    assert "20,000 条消息" in chinese.firing[0].cause
    assert (chinese.language, chinese.time_zone) == ("zh", "Asia/Shanghai")


def test_an_end_is_told_in_the_language_of_the_route_from_what_the_database_kept(engine: Engine) -> None:
    """Between the intervals only the database knows the incident: its figures, and how it ended."""
    told(engine, facts(0, "billing", "other"))
    endings = [view for minute in (1, 2, 3) for view in told(engine, facts(minute, "other")).values() if view.resolved]
    assert [one.resolution for view in endings for one in view.resolved] == [
        "消费组 billing 已不存在：Broker 上没有它的位点"
    ]
    with reading(engine) as session:
        (kept,) = incidents.by_id(session, [endings[0].resolved[0].incident_id]).values()
    assert isinstance(kept.resolution, Sentence)
    assert kept.resolution == "consumer group billing is gone: the brokers keep no offsets of it"
    assert kept.evidence.text_figures["effective_lag"] == 20_000
