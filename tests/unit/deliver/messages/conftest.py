"""One message as the judge writes it; tests change what they are about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offsetguard.model.forecast import FURTHEST_MS
from offsetguard.model.views import FigureView, IncidentView, LagPoint, MessageView, NotificationReason, QueueView

PAGE = "http://127.0.0.1:8080"
OPENED = datetime(2026, 11, 21, 6, 45, tzinfo=UTC)


@pytest.fixture
def incident() -> IncidentView:
    """Give a stopped group with a backlog on 16 queues, 2 of them shown."""
    return IncidentView(
        incident_id="incident 1",
        consumer_group="order-group",
        topic="order-events",
        severity="critical",
        state="STOPPED",
        summary="order-group is offline and 5,120 messages behind on order-events",
        cause="Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.",
        do_next="Start the consumers of order-group.",
        opened_at=OPENED,
        last_seen_at=OPENED + timedelta(minutes=34),
        seen_count=34,
        peak="5,120 messages",
        figures=(FigureView(label="Messages waiting", value="5,120"), FigureView(label="Clients online", value="0")),
        queues=tuple(
            QueueView(
                topic="order-events",
                broker_name="broker-a",
                queue_id=queue_id,
                figures=(FigureView(label="lag", value=f"{700 - queue_id}"),),
            )
            for queue_id in range(2)
        ),
        queue_count=16,
        explains=("never_committed: order-group has committed nothing of order-audit",),
        explained_count=13,
        cannot_tell=("lock_contention: lock.log of broker-a was not read.",),
        cannot_tell_count=1,
        lag_curve=tuple(
            LagPoint(at=OPENED + timedelta(minutes=n), lag=lag)
            for n, lag in ((0, 0), (5, 800), (20, 6_000), (30, 5_120))
        ),
        drain_ms=(480_000, 720_000),
        loss_ms=(5 * 3_600_000, FURTHEST_MS),
        acknowledged_at=OPENED + timedelta(minutes=15),
        acknowledged_by="alice",
        acknowledgement="I look after it",
        incident_url=f"{PAGE}/offsetguard/incidents/1",
        acknowledge_url=f"{PAGE}/offsetguard/incidents/1#acknowledge",
        silence_url=f"{PAGE}/offsetguard/incidents/1#silence",
    )


@pytest.fixture
def resolved_incident(incident: IncidentView) -> IncidentView:
    """Give the same, 41 minutes later."""
    ended = {"resolved_at": OPENED + timedelta(minutes=41), "resolution": "caught up"}
    return incident.model_copy(update=ended)


@pytest.fixture
def view(incident: IncidentView) -> MessageView:
    """Give the first message about it."""
    return MessageView(
        team="orders",
        cluster="orders-cluster",
        rule_id="accumulation",
        severity="critical",
        title="messages pile up",
        reason=NotificationReason.FIRST,
        interval_start=OPENED + timedelta(minutes=34),
        thread_key="thread 1",
        firing=(incident,),
        page_url=PAGE,
        data_docs_url="http://127.0.0.1:8080/docs?a=1&b=2",
    )
