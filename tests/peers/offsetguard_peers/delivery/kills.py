"""Kills deliverers at random moments and counts what was lost and what was repeated.

python -m offsetguard_peers.delivery.kills --kills 200

Each trial writes messages for five receivers into the outbox, starts a deliverer (a process of its own, with real
servers), kills it with SIGKILL at a random moment of its work, and lets another one finish. Exit code 1 when a message
was lost, when a crash cost more than one repeat, or when Slack, which can be asked what it has, saw one.
"""

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta
from random import Random

from offsetguard.deliver.deliver import deliver_due
from offsetguard.model.views import IncidentView, MessageView
from offsetguard.store import outbox
from offsetguard.store.database import open_database
from offsetguard.store.models import Status
from offsetguard_peers.databases import PostgresServer, postgresql_binaries
from offsetguard_peers.delivery.world import (
    NOW,
    RESOLVED,
    VIEW,
    DeliveryWorld,
    delivery_world,
    running_deliverer,
)

RECEIVERS = ("a@example.com", "b@example.com", "#alerts", "hook-1", "hook-2")
_KEY = re.compile(r"\d+-\S+-(?:warning|resolved)")
BETWEEN_TRIALS = timedelta(hours=1)
CLAIMS_HAVE_ENDED = timedelta(minutes=3)


class KillTrials:
    """Counts over all kills so far."""

    def __init__(self, world: DeliveryWorld, *, seed: int) -> None:
        """Let `seed` decide at which moments deliverers are killed."""
        self.world = world
        self.killed = 0  # while they still worked
        self.in_doubt = 0  # kills at which a receiver had accepted what was not logged
        self.lost = 0
        self.repeats = 0
        self.worst_repeats = 0  # of one kill
        self.slack_repeats = 0
        self._random = Random(seed)  # noqa: S311 moments, no secrets
        self._number = 0
        self._whole_s: float | None = None
        self._addresses = world.addresses

    def kill_once(self) -> None:
        """Do one trial; the first time also measure how long a deliverer takes that nobody kills."""
        if self._whole_s is None:
            self._trial(None)  # the first one loads what all others share
            self._whole_s = self._trial(None)
        killed = self.killed
        took_s = self._trial(self._random.uniform(0, 1.05 * self._whole_s))
        if self.killed == killed:  # it was faster than the one that was measured
            self._whole_s = min(self._whole_s, took_s)

    def _trial(self, kill_after_s: float | None) -> float:
        self._number += 1
        now = NOW + self._number * BETWEEN_TRIALS
        wanted = self._put(now)
        self.world.slack.workspace.clock = now.timestamp
        started = time.monotonic()
        with running_deliverer(self._addresses, now) as process:
            process.join(kill_after_s)
            took_s = time.monotonic() - started
            self.killed += process.is_alive()
        self.in_doubt += self._accepted().total() > self._sent(wanted.total())
        report = deliver_due(self.world.engine, self.world.channels, now=now + CLAIMS_HAVE_ENDED)
        assert report.reasons == ()
        accepted = self._accepted()
        repeats = accepted - wanted
        self.lost += (wanted - accepted).total() + wanted.total() - self._sent(wanted.total())
        self.repeats += repeats.total()
        self.worst_repeats = max(self.worst_repeats, repeats.total())
        self.slack_repeats += sum(count for key, count in repeats.items() if "#" in key)
        return took_s

    def _put(self, now: datetime) -> Counter[str]:
        """Write a warning and its resolution for each receiver; returns what they are to accept, and how often."""
        wanted: Counter[str] = Counter()
        self.world.smtp.mails.clear()
        self.world.slack.workspace.messages.clear()
        for receiver in RECEIVERS:
            for name, view in (("warning", VIEW), ("resolved", RESOLVED)):
                key = f"{self._number}-{receiver}-{name}"
                self.world.put(key, receiver, _named(view, key, f"thread {self._number}"), now=now)
                wanted[receiver if receiver.startswith("#") else key] += 1
        return wanted

    def _accepted(self) -> Counter[str]:
        """Count mails and posts through webhooks by their keys, others by channel, since Slack's parents are edited."""
        texts = [str(mail.message["Subject"]) for mail in list(self.world.smtp.mails)]
        posted = self.world.slack.messages
        texts += [message.text for message in posted if message.through_webhook]
        channels = (f"#{message.channel.name}" for message in posted if not message.through_webhook)
        return Counter(_KEY.findall(text)[0] for text in texts) + Counter(channels)

    def _sent(self, count: int) -> int:
        """Return how many of the newest messages are logged as accepted."""
        return sum(row.status is Status.SENT for row in outbox.messages(self.world.engine, limit=count))


def _named(view: MessageView, key: str, thread_key: str) -> MessageView:
    def named(incidents: tuple[IncidentView, ...]) -> tuple[IncidentView, ...]:
        return tuple(one.model_copy(update={"summary": key, "consumer_group": key}) for one in incidents)

    return view.model_copy(
        update={"thread_key": thread_key, "firing": named(view.firing), "resolved": named(view.resolved)}
    )


def main() -> int:
    """Kill as often as asked for, half of it on each kind of database; 0 when the contract held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    held = True
    print("database      kills  at work  in doubt  lost  repeats  worst  Slack      s")
    with ExitStack() as stack:
        urls = [f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/offsetguard.db"]
        if postgresql_binaries() is not None:
            server = stack.enter_context(PostgresServer())
            urls.append(server.url(server.new_database()))
        for url in urls:
            trials, seconds = _kill(url, arguments.kills // len(urls), arguments.seed)
            print(
                f"{url.partition(':')[0].partition('+')[0]:<12}{arguments.kills // len(urls):>7}{trials.killed:>9}"
                f"{trials.in_doubt:>10}{trials.lost:>6}{trials.repeats:>9}{trials.worst_repeats:>7}"
                f"{trials.slack_repeats:>7}{seconds:>7.0f}"
            )
            held = held and (trials.lost, trials.slack_repeats) == (0, 0) and trials.worst_repeats <= 1
    return 0 if held else 1


def _kill(url: str, kills: int, seed: int) -> tuple[KillTrials, float]:
    started = time.monotonic()
    engine = open_database(url)
    with delivery_world(engine) as world:
        trials = KillTrials(world, seed=seed)
        for _ in range(kills):
            trials.kill_once()
    engine.dispose()
    return trials, time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
