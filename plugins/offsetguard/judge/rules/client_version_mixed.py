"""Clients of one group have different versions.

Means: a deployment was not finished, or an old instance was forgotten; versions differ in how they rebalance, lock and
commit.
Evidence: versions that the connected clients give with their heartbeats.
Not judged: languages (their versions cannot be compared), a group that was (re)started within the last half hour: a
rolling deployment mixes versions for a while.
Do next: bring all instances to one version.
Source: ConnectionInfo.version of GET_CONSUMER_CONNECTION_LIST; MQVersion (4.9.8, 5.5.0).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta

from offsetguard.judge.evidence.lookups import each_group
from offsetguard.judge.rule import Config, Finding, IntervalFacts, Rule, Severity, Texts
from offsetguard.sources.rocketmq.codes import version_name

_ROLLING = timedelta(minutes=30)

RULE = Rule(
    id="client_version_mixed",
    severity=Severity.INFO,
    place=350,
    needs=("groups",),
    means="Clients of one consumer group have different versions.",
    texts={
        "default": Texts(
            summary="Clients of {consumer_group} have different versions: {versions}",
            summary_zh="{consumer_group} 的客户端版本不一致：{versions}",
            cause="The {online_client_count} client{online_client_count:plural} of consumer group {consumer_group} "
            "have different versions: "
            "{versions}.",
            cause_zh="消费组 {consumer_group} 的 {online_client_count} 个客户端版本不一致：{versions}。",
            do_next="See whether a deployment of {consumer_group} was left unfinished, or an old instance runs on; "
            "bring all to one version.",
            do_next_zh="请检查 {consumer_group} 是否有未完成的发布，或仍有旧实例在运行；请统一版本。",
        ),
    },
    title="different client versions",
    title_zh="客户端版本不一致",
    table=("versions", "online_client_count"),
    recovered="all clients have one version",
    recovered_zh="所有客户端版本已一致",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group, whatever its topics."""
    for group in each_group(facts):
        versions = _mixed(group.client_versions or ())
        rolling = group.newest_client_start_at is not None and facts.now - group.newest_client_start_at < _ROLLING
        if versions and not rolling:
            yield RULE.finding(
                facts,
                about=(group.consumer_group, None),
                figures={"versions": ", ".join(versions), "online_client_count": group.online_client_count},
            )


def _mixed(client_versions: Sequence[str]) -> list[str]:
    """Return the versions of the languages that have several, each with its language; `client_versions` as a fact."""
    by_language: defaultdict[str, set[int]] = defaultdict(set)
    for text in client_versions:
        language, _, version = text.rpartition(" ")
        if version.isdecimal():
            by_language[language].add(int(version))
    return [
        f"{language} {version_name(version)}".strip()
        for language, versions in sorted(by_language.items())
        if len(versions) > 1
        for version in sorted(versions)
    ]
