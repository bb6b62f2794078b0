"""Which entry wins is the same as trying them one by one, whatever is remembered."""

from __future__ import annotations

import fnmatch
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.config import RECEIVER_LISTS, Config
from offsetguard.config.fields import matches
from offsetguard.model.verdicts import Severity

LETTERS = "ab-"
names = st.text(LETTERS, min_size=1, max_size=6)
patterns = st.one_of(
    names,
    st.just("*"),
    st.lists(st.sampled_from(["a", "b", "-", "ab", "*", "?", "[ab]", "[!a]", "["]), min_size=1, max_size=5).map(
        "".join
    ),
)
News = tuple[str, str, Severity, str | None]  # cluster, rule, severity, consumer group
TEAMS = ["first", "second", "silent"]
CLUSTERS = ["main", "spare"]
RULES = ["messages_lost", "accumulation"]


@given(names, patterns)
def test_a_remembered_pattern_matches_as_fnmatch_does(name: str, pattern: str) -> None:
    assert bool(matches(name, pattern)) == fnmatch.fnmatchcase(name, pattern)


def some(fields: dict[str, st.SearchStrategy[Any]], **always: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(always, optional=fields)


addresses = st.lists(st.sampled_from(["a@example.com", "b@example.com"]), max_size=3)
group_entries = some(
    {
        "cluster": st.sampled_from(["*", "main", "s*"]),
        "team": st.sampled_from(TEAMS),
        "max_lag_messages": st.integers(0, 3),
    },
    match=patterns,
)
route_entries = some(
    {
        "team": st.sampled_from(["*", "first", "s*"]),
        "cluster": st.sampled_from(["*", "main", "s*"]),
        "consumer_group": patterns,
        "rule": st.sampled_from(["*", "messages_lost", "acc*"]),
        "severity": st.sampled_from([one.value for one in Severity]),
        "mail": addresses,
        "slack": st.lists(st.sampled_from(["#a", "#b"]), max_size=2),
        "language": st.sampled_from(["en", "zh"]),
        "group_wait_ms": st.integers(0, 3),
        "send_resolved": st.booleans(),
        "escalate_to": st.sampled_from(TEAMS),
    }
)


@st.composite
def configurations(draw: st.DrawFn) -> Config:
    return Config.model_validate(
        {
            "clusters": {name: {"name_servers": ["a:1"]} for name in CLUSTERS},
            "teams": {"first": {"mail": ["first@example.com"]}, "second": {"slack": ["#second"]}, "silent": {}},
            "default_team": "first",
            "groups": draw(st.lists(group_entries, max_size=5)),
            "routes": draw(st.lists(route_entries, max_size=6)),
        }
    )


@given(configurations(), st.lists(st.tuples(names, st.sampled_from(CLUSTERS)), max_size=4))
def test_the_policy_of_a_group_is_the_first_entry_that_sets_each_field(
    config: Config, asked: list[tuple[str, str]]
) -> None:
    for name, cluster in [*asked, *asked]:  # the second time it is remembered
        policy = config.policy(cluster, name)
        for field, default in (("team", "first"), ("max_lag_messages", 10_000)):
            said = [
                getattr(entry, field)
                for entry in config.groups
                if fnmatch.fnmatchcase(name, entry.match) and fnmatch.fnmatchcase(cluster, entry.cluster)
            ]
            assert getattr(policy, field) == next((one for one in said if one is not None), default)


questions = st.tuples(
    st.sampled_from([*TEAMS, "gone"]),
    st.sampled_from(CLUSTERS),
    st.sampled_from(RULES),
    st.sampled_from(Severity),
    st.none() | names,
)


@given(configurations(), st.lists(questions, max_size=4))
def test_a_route_is_the_first_entry_that_sets_each_field_and_somebody_always_hears(
    config: Config, asked: list[tuple[str, str, str, Severity, str | None]]
) -> None:
    for team, cluster, rule_id, severity, group in [*asked, *asked]:
        route = config.route(team, cluster, rule_id=rule_id, severity=severity, consumer_group=group)

        def said(of_team: str, field: str, news: News = (cluster, rule_id, severity, group)) -> Any:
            return naive(config, of_team, field, news)

        for field, default in (
            ("language", "en"),
            ("group_wait_ms", 0),
            ("send_resolved", True),
            ("escalate_to", None),
        ):
            value = said(team, field)
            assert getattr(route, field) == (default if value is None else value)
        heard = [(one, told_by(config, one, said)) for one in (team, "first")]
        expected = next(((one, told) for one, told in heard if told), ("first", [("mail", "first@example.com")]))
        assert (route.heard_by, list(route.receivers)) == expected
        assert route == config.route(team, cluster, rule_id=rule_id, severity=severity, consumer_group=group)


def naive(config: Config, team: str, field: str, news: News) -> Any:
    """Return what the first matching entry says, or None."""
    cluster, rule_id, severity, group = news
    for entry in config.routes:
        about = entry.consumer_group == "*" if group is None else fnmatch.fnmatchcase(group, entry.consumer_group)
        if (
            about
            and fnmatch.fnmatchcase(team, entry.team)
            and fnmatch.fnmatchcase(cluster, entry.cluster)
            and fnmatch.fnmatchcase(rule_id, entry.rule)
            and list(Severity).index(severity) >= list(Severity).index(entry.severity)
            and getattr(entry, field) is not None
        ):
            return getattr(entry, field)
    return None


def told_by(config: Config, team: str, said: Any) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    for field, channel in RECEIVER_LISTS.items():
        names_said = said(team, field)
        own = getattr(config.teams.get(team), field, [])
        told += [(channel, name) for name in dict.fromkeys(own if names_said is None else names_said)]
    return told
