"""Pictures of real mails: trouble that is staged minute by minute, judged, sent by SMTP, and shown in a browser.

    python -m offsetguard_peers.pictures.mail docs

Everything between the facts and the picture is the product: windows, rules, incidents, outbox, delivery, MIME.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.decide.judge import judge_interval
from offsetguard.deliver.channels.mail import MailChannel
from offsetguard.deliver.daily_reports import write_daily_reports
from offsetguard.deliver.deliver import deliver_due
from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue
from offsetguard.store.database import open_database
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.queue_state import Sample
from offsetguard_peers.delivery.world import Channels
from offsetguard_peers.judging.records import a_group
from offsetguard_peers.pictures import asked_folder
from offsetguard_peers.pictures.chromium import open_page, shrink
from offsetguard_peers.smtp.inbox import InboxPage
from offsetguard_peers.smtp.server import ReceivedMail, SmtpServer

CLUSTER = "orders-cluster"
START = datetime(2026, 11, 21, 6, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MORE_FROM = 9  # the minute in which the stopped groups are found
DESK, PHONE = 760, 375  # CSS pixels


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """A consumer group whose consumers stop at a minute, and may come back at another."""

    name: str
    topic: str
    queue_count: int
    written_per_minute: int  # of the first queue; each further one gets a little more
    stops_at: int = 1_000
    returns_at: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)  # further fields of GroupFacts, from MORE_FROM on

    def written(self, queue: int, minute: float) -> int:
        """Return the max offset of a queue."""
        return round(minute * self.written_per_minute * (1 + queue / 20))

    def committed(self, queue: int, minute: int) -> int:
        """Return the committed offset of a queue; who comes back needs ten minutes for what waits."""
        if minute <= self.stops_at:
            return self.written(queue, minute)
        stood = self.written(queue, self.stops_at)
        if self.returns_at is None or minute < self.returns_at:
            return stood
        share = min(1.0, (minute - self.returns_at) / 10)
        return stood + round(share * (self.written(queue, minute) - stood))

    def online(self, minute: int) -> int:
        """Return how many clients are online."""
        stopped = minute > self.stops_at and (self.returns_at is None or minute < self.returns_at)
        return 0 if stopped else 3


ORDER_GROUP = StagedGroup("order-group", "order-events", 8, 640, stops_at=7)
BACK_AGAIN = StagedGroup("order-group", "order-events", 8, 640, stops_at=7, returns_at=28)
MORE_TROUBLE = (
    ORDER_GROUP,
    *(StagedGroup(f"billing-{n}", "order-events", 8, 640, stops_at=7) for n in range(7)),
    StagedGroup("audit", "audits", 4, 90, more={"dead_letter_growth": 12, "dead_letter_message_count": 40}),
    StagedGroup("mailer", "mails", 4, 90, more={"retry_growth": 3_000, "consume_tps": 80.0}),
)


class Stage:
    """Minutes of a cluster, judged one after the other; mails go to an SMTP server of ours."""

    def __init__(self, engine: Engine, smtp: SmtpServer, groups: tuple[StagedGroup, ...], **delivery: Any) -> None:
        """`delivery`: of the configuration."""
        self._engine = engine
        self.smtp = smtp
        self._groups = groups
        self._samples: defaultdict[tuple[str, MessageQueue], list[tuple[datetime, Sample]]] = defaultdict(list)
        self.config = Config.model_validate(
            {
                "clusters": {CLUSTER: {"name_servers": ["10.0.0.1:9876"]}},
                "teams": {"orders": {"mail": ["orders@example.com"]}},
                "default_team": "orders",
                "delivery": {
                    "mail_from": "offsetguard@example.com",
                    "page_url": "https://airflow.example.com",
                    "notify_within_ms": 3_600_000,
                    **delivery,
                },
            }
        )

    def play(self, minutes: int) -> list[ReceivedMail]:
        """Judge so many minutes, and deliver after each; returns all mails."""
        for minute in range(minutes):
            facts = self._facts(minute)
            judge_interval(self._engine, facts, self.config, now=facts.now + timedelta(seconds=10))
            self.deliver(facts.now + timedelta(seconds=12))
        return self.smtp.mails

    def report(self, now: datetime) -> ReceivedMail:
        """Write the daily report and deliver it."""
        write_daily_reports(self._engine, self.config, now=now)
        self.deliver(now)
        return self.smtp.mails[-1]

    def deliver(self, now: datetime) -> None:
        """Send what is due."""
        mail = MailChannel(self.smtp.host, self.smtp.port, timeout_s=60, sender=self.config.delivery.mail_from)
        deliver_due(self._engine, Channels(mail), now=now)

    def _facts(self, minute: int) -> IntervalFacts:
        interval = Interval(START + minute * MINUTE)
        queues = tuple(self._queues(minute, interval))
        groups = tuple(self._group(one, minute, queues) for one in self._groups)
        names = sorted({queue.message_queue.broker_name for queue in queues})
        brokers = tuple(
            BrokerFacts(
                broker_name=name,
                broker_id=0,
                listed=True,
                answered=True,
                rocketmq_cluster="Orders",
                commit_log_max_offset=10**9,
                commit_log_disk_ratio=0.4,
                page_cache_lock_time_ms=0,
                clock_ahead_ms=0,
            )
            for name in names
        )
        return IntervalFacts(CLUSTER, interval, interval.end, queues=queues, groups=groups, brokers=brokers)

    def _queues(self, minute: int, interval: Interval) -> Iterator[QueueFacts]:
        read_at = interval.start + timedelta(seconds=5)
        newest: dict[tuple[str, MessageQueue], tuple[Sample, int]] = {}
        for group in self._groups:
            for n in range(group.queue_count):
                written, committed = group.written(n, minute), group.committed(n, minute)
                last_at = START + committed / group.written(n, 1) * MINUTE  # what was consumed last, was written then
                sample = Sample(
                    min_offset=0,
                    max_offset=written,
                    consumer_offset=committed,
                    last_timestamp=last_at,
                    oldest_unconsumed_at=last_at if written > committed else None,
                    consumer_offset_read_at=read_at,
                    max_offset_read_at=read_at,
                )
                key = (group.name, MessageQueue(group.topic, f"broker-{'ab'[n % 2]}", n // 2))
                self._samples[key].append((interval.start, sample))
                lag_ms = (read_at - last_at) // timedelta(milliseconds=1) if written > committed else 0
                newest[key] = sample, lag_ms
        for (group_name, queue), state in windows_of({key: self._samples[key] for key in newest}).items():
            sample, lag_ms = newest[group_name, queue]
            yield QueueFacts(
                consumer_group=group_name,
                message_queue=queue,
                offsets=sample.offsets,
                last_timestamp=sample.last_timestamp,
                lag_ms=lag_ms,
                window=state,
            )

    def _group(self, group: StagedGroup, minute: int, queues: Iterable[QueueFacts]) -> GroupFacts:
        own = [one for one in queues if one.consumer_group == group.name]
        lag = sum(one.offsets.lag or 0 for one in own)
        facts = {
            "topic": group.topic,
            "queue_count": group.queue_count,
            "lag_ms": max(one.lag_ms or 0 for one in own),
            "online_client_count": group.online(minute),
            "message_model": "clustering",
        }
        return a_group(group.name, lag, **(facts | (dict(group.more) if minute >= MORE_FROM else {})))


@contextmanager
def staged(*groups: StagedGroup, **delivery: Any) -> Iterator[Stage]:
    """Open a stage with a database and an SMTP server of its own."""
    with tempfile.TemporaryDirectory() as folder, SmtpServer() as smtp:
        engine = open_database(f"sqlite:///{folder}/offsetguard.db")
        try:
            yield Stage(engine, smtp, groups, **delivery)
        finally:
            engine.dispose()


def photograph(stage_mails: SmtpServer, number: int, png: Path, *, width: int, dark: bool = False) -> None:
    """Show a received mail (1 = the first) in a browser of a width, and keep the picture."""
    with InboxPage(stage_mails) as inbox, open_page(width=width, height=600) as page:
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(f"{inbox.url}{number}.html")
        page.screenshot(path=png, full_page=True)
    shrink(png)


def main(folder: Path) -> None:
    """Make all pictures of docs/messages.md."""
    with staged(ORDER_GROUP, repeat_interval_ms=1_200_000) as stage:
        stage.play(34)
        newest = len(stage.smtp.mails)
        photograph(stage.smtp, newest, folder / "mail.png", width=DESK)
        photograph(stage.smtp, newest, folder / "mail-phone.png", width=PHONE)
        photograph(stage.smtp, newest, folder / "mail-phone-dark.png", width=PHONE, dark=True)
    with staged(ORDER_GROUP, language="zh", time_zone="Asia/Shanghai", repeat_interval_ms=1_200_000) as stage:
        stage.play(34)
        photograph(stage.smtp, len(stage.smtp.mails), folder / "mail-zh.png", width=DESK)
        photograph(stage.smtp, len(stage.smtp.mails), folder / "mail-phone-zh.png", width=PHONE)
    with staged(BACK_AGAIN, daily_report_at="08:00") as stage:
        stage.play(50)
        photograph(stage.smtp, len(stage.smtp.mails), folder / "mail-resolved.png", width=PHONE)
        stage.report(START + timedelta(hours=26))
        photograph(stage.smtp, len(stage.smtp.mails), folder / "mail-daily-report.png", width=DESK)
    with staged(*MORE_TROUBLE, digest_above=2, group_wait_ms=300_000) as stage:
        stage.play(20)
        photograph(stage.smtp, len(stage.smtp.mails), folder / "mail-digest.png", width=DESK)


if __name__ == "__main__":
    main(asked_folder(__doc__))
