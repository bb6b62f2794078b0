"""10,000 consumer groups turn bad at once, and all are well again: how many messages, how long, how much memory.

    uv run python benchmarks/storm.py [--groups 10000] [--teams 20] [--database URL]

Groups belong to teams by their names; every team has a mail address and a Slack channel. A third of the groups piles up
messages with clients online, a third is offline, a third has lost messages. Judged, planned, written, rendered and sent
to a real SMTP server and a strict Slack that limits haste as Slack does. Exit code 1 when there are other messages than
teams x causes to each receiver, or when a storm takes 60 s or the process 500 MiB (the servers are within it).
"""

import argparse
import logging
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.decide.judge import judge_interval
from offsetguard.deliver.channels.mail import MailChannel
from offsetguard.deliver.channels.slack import SlackChannel
from offsetguard.deliver.deliver import deliver_due
from offsetguard.facts.interval import IntervalFacts
from offsetguard.model.intervals import Interval
from offsetguard.store.database import open_database
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.delivery.world import Channels
from offsetguard_peers.judging.records import a_group
from offsetguard_peers.slack.limits import RateLimits
from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.slack.workspace import Channel
from offsetguard_peers.smtp.server import SmtpServer

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MOST_S, MOST_MIB = 60.0, 500.0
STORM, CALM = (0,), (6, 7)  # minutes; two good ones resolve, and news may follow five minutes after a message


@dataclass(frozen=True)
class Measured:
    """One phase."""

    what: str
    judge_s: float
    deliver_s: float
    causes: int
    messages: int
    sent: int


def main() -> int:
    """Run both phases and print a line for each; 1 when a bound was passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--teams", type=int, default=20)
    parser.add_argument("--database", help="SQLAlchemy URL of an empty database; default: a new SQLite file")
    parsed = parser.parse_args()
    logging.getLogger("offsetguard").setLevel(logging.ERROR)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine = open_database(parsed.database or f"sqlite:///{folder / 'offsetguard.db'}")
        stack.callback(engine.dispose)
        smtp = stack.enter_context(SmtpServer())
        rooms = tuple(Channel(f"C0TEAM{number:03}", f"team-{number:03}") for number in range(parsed.teams))
        slack = stack.enter_context(SlackServer(channels=rooms))
        slack.workspace.limits = RateLimits(time.monotonic)
        channels = Channels(
            MailChannel(smtp.host, smtp.port, timeout_s=60, sender="offsetguard@example.org"),
            SlackChannel.with_token(slack.token, base_url=slack.api_url, timeout=60),
        )
        config = config_of(parsed.teams)
        world = World(engine, config, channels)
        phases = [
            world.measure("turn bad", STORM, groups_of(parsed.groups, parsed.teams, well=False)),
            world.measure("are well", CALM, groups_of(parsed.groups, parsed.teams, well=True)),
        ]
    return report(phases, parsed.groups, parsed.teams)


@dataclass(frozen=True)
class World:
    """What a storm blows through."""

    engine: Engine
    config: Config
    channels: Channels

    def measure(self, what: str, minutes: Sequence[int], groups: tuple[GroupFacts, ...]) -> Measured:
        """Judge the minutes one after the other and deliver after each, as the DAGs do."""
        judge_s = deliver_s = 0.0
        messages = sent = 0
        causes: set[tuple[str, str]] = set()
        for minute in minutes:
            interval = Interval(START + minute * MINUTE)
            now = interval.end + timedelta(seconds=10)
            facts = IntervalFacts("demo", interval, interval.end, groups=groups)
            started = time.perf_counter()
            judged = judge_interval(self.engine, facts, self.config, now=now)
            judge_s += time.perf_counter() - started
            messages += len(judged.messages)
            causes |= {(message.view.team, message.view.rule_id) for message in judged.messages}
            started = time.perf_counter()
            delivered = deliver_due(self.engine, self.channels, now=now)
            deliver_s += time.perf_counter() - started
            sent += delivered.sent
            for reason in delivered.reasons:
                print(reason, file=sys.stderr)
        return Measured(what, judge_s, deliver_s, len(causes), messages, sent)


def report(phases: Sequence[Measured], groups: int, teams: int) -> int:
    """Print the table; 1 when a bound was passed."""
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{groups:,} groups of {teams} teams, each with a mail address and a Slack channel")
    print(f"{'all':<10}{'judged s':>9}{'sent s':>8}{'together s':>11}{'teams x causes':>15}{'messages':>9}{'sent':>6}")
    for one in phases:
        together = one.judge_s + one.deliver_s
        print(
            f"{one.what:<10}{one.judge_s:>9.1f}{one.deliver_s:>8.1f}{together:>11.1f}{one.causes:>15}"
            f"{one.messages:>9}{one.sent:>6}"
        )
    print(f"peak of the process, servers included: {peak_mib:.0f} MiB")
    held = all(
        one.judge_s + one.deliver_s < MOST_S and one.messages == one.sent == 2 * one.causes and one.causes > 0
        for one in phases
    )
    return 0 if held and peak_mib < MOST_MIB else 1


def config_of(teams: int) -> Config:
    """Give every team its groups by a pattern."""
    names = [f"team-{number:03}" for number in range(teams)]
    return Config.model_validate(
        {
            "clusters": {"demo": {"name_servers": ["10.0.0.1:9876"]}},
            "groups": [{"match": f"{name}-*", "team": name} for name in names],
            "teams": {name: {"mail": [f"{name}@example.org"], "slack": [f"#{name}"]} for name in names},
            "default_team": names[0],
        }
    )


def groups_of(count: int, teams: int, *, well: bool) -> tuple[GroupFacts, ...]:
    """Make the groups, their causes in turn."""
    return tuple(
        _group(f"team-{number % teams:03}-{number:05}", number // teams % 3, well=well) for number in range(count)
    )


def _group(name: str, cause: int, *, well: bool) -> GroupFacts:
    return a_group(
        name,
        0 if well else 50_000,
        queue_count=8,
        lost=5_000 if cause == 2 and not well else 0,
        lag_ms=0 if well else 600_000,
        online_client_count=0 if cause == 1 and not well else 4,
    )


if __name__ == "__main__":
    sys.exit(main())
