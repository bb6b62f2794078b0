"""An hour of a topic beside the same hour of earlier weeks: what is more, or less, than usual.

Like is compared with like: a topic that is written to once an hour, or once a night, has minutes without a message, but
each of its hours is as full as that hour of other weeks. So the figures are there when an hour has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetguard.catalogue import Sentence
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, TrafficHour
from offsetguard.model.verdicts import CannotTell, Figure

CALM_MS = 65 * 60_000  # an hour is judged once, in the first minute of the next one
# Below, a change by chance looks large: an hour of 0.2/s has 720 messages.
LEAST_USUAL_TPS = 0.2
SPREADS = 4.0  # standard deviations: of 10,000 topics x 168 hours, chance alone brings about 50 in a week
NEARLY_NOTHING = 0.02  # of what is usual


def judged_hours(facts: IntervalFacts, config: Config) -> Iterator[TrafficHour]:
    """Give the hours of topics of which enough weeks are known, RocketMQ's own and retry topics left out."""
    kinds = {topic.topic: topic.topic_kind for topic in facts.topics}
    for hour in facts.traffic_hours:
        if hour.week_count >= config.judgement.traffic_weeks and kinds.get(hour.topic, "normal") == "normal":
            yield hour


def is_surge(hour: TrafficHour) -> bool:
    """Twice the usual, and beyond what differs from week to week."""
    usual = max(hour.usual_tps, LEAST_USUAL_TPS)
    return hour.hour_tps > usual + max(SPREADS * hour.usual_spread_tps, usual)


def is_drop(hour: TrafficHour) -> bool:
    """Less than half of the usual, and beyond what differs from week to week."""
    least = hour.usual_tps - max(SPREADS * hour.usual_spread_tps, hour.usual_tps / 2)
    return hour.usual_tps >= LEAST_USUAL_TPS and hour.hour_tps < least


def figures_of(hour: TrafficHour) -> dict[str, Figure]:
    """Return what the texts of both rules name."""
    usual_percent = 100 * hour.hour_tps / hour.usual_tps if hour.usual_tps > 0 else None
    return {
        "hour_tps": hour.hour_tps,
        "usual_tps": hour.usual_tps,
        "usual_spread_tps": hour.usual_spread_tps,
        "usual_percent": usual_percent,
        "week_count": hour.week_count,
        "hour_start_at": hour.hour_start_at,
    }


def not_yet_usual(facts: IntervalFacts, config: Config, rule_id: str) -> Iterator[CannotTell]:
    """Give one entry while no topic has enough weeks behind it: what is usual is not known yet."""
    weeks = config.judgement.traffic_weeks
    known = max((topic.baseline_week_count or 0 for topic in facts.topics), default=None)
    if known is not None and known < weeks and not any(hour.week_count >= weeks for hour in facts.traffic_hours):
        because = Sentence("usual_not_known_yet", weeks=weeks, known=known)
        yield CannotTell(rule_id, None, frozenset(), because)
