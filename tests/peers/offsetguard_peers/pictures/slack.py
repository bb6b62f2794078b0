"""The pictures of Slack messages in docs/messages.md, made by what makes and posts the messages themselves.

python -m offsetguard_peers.pictures.slack docs
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image

from offsetguard.catalogue import Sentence
from offsetguard.config import Config
from offsetguard.decide.incidents.lifecycle import opened_by
from offsetguard.decide.message_views import MessageContext, message_view
from offsetguard.deliver.channels.slack import SlackChannel
from offsetguard.deliver.messages.slack import render_slack
from offsetguard.judge.rule import Finding
from offsetguard.judge.rules.accumulation import RULE
from offsetguard.model.incident import Incident
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.model.notification import GroupKey
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import QueueEvidence, Severity
from offsetguard.model.views import LagPoint, MessageView, NotificationReason
from offsetguard_peers.pictures import asked_folder
from offsetguard_peers.pictures.chromium import open_page
from offsetguard_peers.slack.server import SlackServer

OPENED = datetime(2026, 11, 21, 6, 45, tzinfo=UTC)
READERS = {"en": "UTC", "zh": "Asia/Shanghai"}
CONFIG = Config.model_validate(
    {
        "clusters": {"orders-cluster": {"name_servers": ["10.0.0.1:9876"]}},
        "teams": {"orders": {"slack": ["#orders-alerts"]}},
        "default_team": "orders",
        "delivery": {"page_url": "https://airflow.example.com"},
    }
)
WIDTH = 800  # CSS pixels
_COLOURS = 256  # a third of the bytes; rare colours stay: orange must not become red


def draw(folder: Path) -> None:
    """Write slack-<language>-firing.png and slack-<language>-resolved.png for each language."""
    for language, zone in READERS.items():
        with SlackServer() as slack:
            for name, view in story(language, zone):
                tell(slack, view)
                if name:
                    _photograph(slack.url, folder / f"slack-{language}-{name}.png")


def story(language: str, zone: str) -> Iterator[tuple[str | None, MessageView]]:
    """Give the messages of one spell of trouble, with the name of the picture to take after each."""
    context = MessageContext(language=language, time_zone=zone)
    first = _incident("order-group", 5_120, "stalled")
    yield "firing", _view([first], [], NotificationReason.FIRST, 3, context)
    second = _incident("invoice-group", 2_048, "growing")
    beside = replace(context, goes_on_count=1)  # the first one, which somebody has acknowledged
    yield None, _view([second], [], NotificationReason.NEW_FIRING, 8, beside)
    ended = [(one.ended(_interval(minutes), RULE.recovered), None) for one, minutes in ((first, 24), (second, 26))]
    yield "resolved", _view([], ended, NotificationReason.ALL_RESOLVED, 26, context)


def _view(
    firing: list[Incident],
    resolved: Sequence[tuple[Incident, str | None]],
    reason: NotificationReason,
    minutes: int,
    context: MessageContext,
) -> MessageView:
    now = OPENED + minutes * INTERVAL_LENGTH
    view = message_view(
        GroupKey("orders", "orders-cluster", RULE.id),
        firing=[replace(one, last_seen_at=now, seen_count=minutes) for one in firing],
        resolved=resolved,
        reason=reason,
        interval_start=now,
        thread_key="spell 1",
        config=CONFIG,
        context=context,
    )
    outlook = {"lag_curve": _curve(now), "drain_ms": None, "loss_ms": (11 * 3_600_000, 14 * 3_600_000)}
    worst = [one.model_copy(update=outlook) for one in view.firing[:1]]
    return view.model_copy(update={"firing": (*worst, *view.firing[1:])})


def _incident(consumer_group: str, lag: int, variant: str) -> Incident:
    queues = [
        QueueEvidence(
            MessageQueue("order-events", f"broker-{'ab'[number % 2]}", number // 2),
            {"effective_lag": lag // 8 - number, "lag_ms": 300_000 + 1_000 * number},
        )
        for number in range(8)
    ]
    finding = Finding(
        rule=RULE,
        cluster="orders-cluster",
        consumer_group=consumer_group,
        topic="order-events",
        severity=Severity.CRITICAL if variant == "stalled" else Severity.WARNING,
        variant=variant,
        state="STALLED",
        figures={
            "effective_lag": lag,
            "lag_ms": 318_000,
            "inflight": 0,
            "available": None,
            "online_client_count": 2,
            "queue_count": 8,
            "stalled_queue_count": 8,
            "silence": Sentence("for_so_long", span_ms=314_000),
            "growth": 900,
            "max_lag_messages": 1_000,
            "max_lag_ms": 60_000,
            "name_servers": "10.0.0.1:9876",
        },
        queues=tuple(queues),
    )
    return opened_by(finding, _interval(0))


def _interval(minutes: int) -> Interval:
    return Interval(OPENED + minutes * INTERVAL_LENGTH)


def _curve(now: datetime) -> tuple[LagPoint, ...]:
    """Give half an hour in which the lag begins to rise and stays high."""
    begin = now - timedelta(minutes=30)
    return tuple(LagPoint(at=begin + timedelta(minutes=n), lag=max(0, min(5_120, 700 * (n - 22)))) for n in range(31))


def tell(slack: SlackServer, view: MessageView) -> None:
    """Bring a view to Slack as the deliverer does, below the first message that is there."""
    channel = SlackChannel.with_token(slack.token, base_url=slack.api_url)
    key = f"{view.reason.value} {view.interval_start:%H%M}"
    slack.workspace.clock = view.interval_start.timestamp
    below = next((f"{one.channel.id} {one.ts}" for one in slack.messages), None)
    message = render_slack(view, idempotency_key=key)
    receipt = channel.send(message, "#alerts", below=below)
    if message.follow_up is not None:
        details = render_slack(message.follow_up, idempotency_key=f"{key} details")
        channel.send(details, "#alerts", below=receipt.text)


def _photograph(url: str, png: Path) -> None:
    with open_page(width=WIDTH, height=600) as page:
        page.goto(url)
        page.screenshot(path=png, full_page=True)
    with Image.open(png) as picture:
        picture.convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE).save(png, optimize=True)
    print(png)


if __name__ == "__main__":
    draw(asked_folder(__doc__))
