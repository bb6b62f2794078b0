"""What entries of `routes` say together and nobody can have meant: spans, escalation, nobody left to tell."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from offsetguard.config import Config, RouteChoice
from offsetguard.config.checks.samples import News, sample_news
from offsetguard.config.file import ConfigFile, Problem
from offsetguard.config.routes import fields_set
from offsetguard.config.yaml_lines import Path


def contradictions(file: ConfigFile, rule_ids: Collection[str]) -> Iterator[Problem]:
    """Yield each once, at the entry that brings it about."""
    for position, entry in enumerate(file.config.routes):
        if not fields_set(entry):
            yield file.problem(("routes", position), "sets nothing: say what it changes, or remove it")
    found = dict.fromkeys(
        told
        for news in sample_news(file.config, rule_ids)
        for told in (*_of_choice(file, news), *_circles(file.config, news))
    )
    delivery = file.config.delivery
    if delivery.repeat_interval_ms < delivery.group_interval_ms:
        yield file.problem(("delivery", "repeat_interval_ms"), _repeats_too_soon(delivery.group_interval_ms))
        found = {one: None for one in found if one[0][0] != "delivery"}
    for where, what in found:
        yield file.problem(where, what)


def _of_choice(file: ConfigFile, news: News) -> Iterator[tuple[Path, str]]:
    choice = news.choice(file.config)
    route, default = choice.route, file.config.delivery
    if route.repeat_interval_ms < route.group_interval_ms:
        for name in ("repeat_interval_ms", "group_interval_ms"):
            if name in choice.decided_by and getattr(route, name) != getattr(default, name):
                yield _where(choice, name), _repeats_too_soon(route.group_interval_ms)
                break
    after = [name for name in ("escalate_after_repeats", "escalate_after_ms") if name in choice.decided_by]
    if route.escalate_to is None and after:
        yield _where(choice, after[0]), "nobody is named to escalate to: add escalate_to with a team"
    if route.escalate_to is not None and not after:
        what = "never happens: say when, by escalate_after_repeats or escalate_after_ms"
        yield _where(choice, "escalate_to"), what
    team = file.config.teams[news.team]
    if route.heard_by != news.team and (team.mail or team.slack or team.slack_webhooks):
        emptied = next(name for name in ("mail", "slack", "slack_webhooks") if name in choice.decided_by)
        what = f"leaves nobody of team {news.team!r} to tell: the default team ({route.heard_by}) would hear it"
        yield _where(choice, emptied), what


def _circles(config: Config, news: News) -> Iterator[tuple[Path, str]]:
    """Yield a chain of escalation that leads back, at the entry that leads back, beginning with its first name."""
    chain, choice = [news.team], news.choice(config)
    while (following := choice.route.escalate_to) is not None:
        if following == chain[-1]:
            if config.routes[choice.decided_by["escalate_to"]].team == following:
                yield _where(choice, "escalate_to"), f"team {following!r} would escalate to itself"
            return
        if following in chain:
            circle = chain[chain.index(following) :]
            if circle[0] == min(circle):
                what = f"escalation goes round in a circle: {' -> '.join([*circle, following])}; it ends there"
                yield _where(choice, "escalate_to"), what
            return
        chain.append(following)
        choice = news.choice(config, following)


def _where(choice: RouteChoice, field: str) -> Path:
    return ("routes", choice.decided_by[field], field)


def _repeats_too_soon(group_interval_ms: int) -> str:
    return (
        f"is shorter than group_interval_ms ({group_interval_ms}): without news a message would come sooner than "
        "with news; make it longer, or group_interval_ms shorter"
    )
