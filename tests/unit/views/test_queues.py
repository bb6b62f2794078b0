"""The queues of a group, from published facts: what is absent is healthy, or unknown, and never mixed up."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import ValidationError

from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_FACTS, GROUP_FACTS, QUEUE_FACTS
from offsetguard.views.course import Span
from offsetguard.views.published import PublishedFacts
from offsetguard.views.queues import HEAT_QUEUES, AskedQueues, draw, queues_view
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.lake.warehouse import Row, Warehouse, minute

ASKED = AskedQueues(cluster="main", consumer_group="billing", span=Span.HALF_HOUR)
BOTH = ("broker-a", "broker-b")
BRIGHTEST = (253, 231, 37, 255)


def publish(warehouse: Warehouse, number: int, queues: dict[str, int | None], *, seen: tuple[str, ...] = BOTH) -> None:
    """Publish a minute; `queues`: the lag of queue 0 by broker, where it is not provably healthy."""
    interval = Interval(minute(number))
    rows: dict[Any, list[Row]] = {
        GROUP_FACTS: [
            {"consumer_group": "billing", "topic": "orders", "broker_count": len(seen), "queue_count": 8 * len(seen)}
            | {"suspect_queue_count": len(queues)}
        ],
        BROKER_FACTS: [
            {"broker_name": broker, "broker_id": replica, "listed": True}
            | {"consumed_queue_count": 16 if broker in seen and replica == 0 else None}
            for broker in BOTH
            for replica in (0, 1)
        ],
        QUEUE_FACTS: [
            {"consumer_group": group, "topic": "orders", "broker_name": broker, "queue_id": 0, "effective_lag": lag}
            | {"lag_ms": lag, "holder_client_id": "10.0.0.1@1", "holder_count": 1}
            for group in ("billing", "other")
            for broker, lag in queues.items()
        ],
    }
    manifest = manifest_of(interval, unseen_broker_names=tuple({*BOTH} - {*seen})).to_json()
    warehouse.publish("main", interval, rows, manifest_json=manifest)


def test_absent_is_healthy_where_its_broker_and_its_group_were_seen_and_else_unknown(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, QUEUE_FACTS, BROKER_FACTS)
    publish(warehouse, 0, {"broker-a": 500})
    publish(warehouse, 1, {"broker-a": 700, "broker-b": None})
    publish(warehouse, 2, {"broker-a": 3}, seen=("broker-a",))
    publish(warehouse, 4, {"broker-b": 9})
    facts, now = PublishedFacts(warehouse.workspace, warehouse.engine), minute(6)
    view = queues_view(ASKED, facts.of_queues(ASKED, now), now, 10_000)
    assert (view.until, view.step_ms, len(view.heat[0].greatest)) == (minute(5), 60_000, 30)
    shown = {line.broker_name: line.greatest[-5:] for line in view.heat}
    assert shown == {"broker-a": (500, 700, 3, None, 0), "broker-b": (0, None, None, None, 9)}
    assert all(line.greatest[:25] == (None,) * 25 for line in view.heat), "nothing was published"
    assert (view.greatest, view.interval_count, view.queue_count, view.suspect_queue_count) == (700, 4, 16, 1)
    assert (view.waiting_queue_count, view.unknown_queue_count) == (1, 0)
    assert [(one.broker_name, one.effective_lag, one.holder_client_id) for one in view.worst] == [
        ("broker-b", 9, "10.0.0.1@1")
    ]
    points = [one.effective_lag for one in view.points() if one.broker_name == "broker-b"]
    assert points[-5:] == [0, None, None, None, 9]
    steps, table = view.table()
    assert (steps[0], len(steps), [line[-3:] for line in table]) == (view.since, 15, [[500, 700, 0], [0, None, 9]])

    other = ASKED.model_copy(update={"topic": "payments"})
    nothing = queues_view(other, facts.of_queues(other, now), now)
    assert (nothing.heat, nothing.queue_count, nothing.interval_count) == ((), None, 0)


def test_a_step_keeps_its_peak_and_only_the_worst_queues_are_shown(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, QUEUE_FACTS, BROKER_FACTS)
    publish(warehouse, 0, {f"broker-{n}": 1_000 - n for n in range(HEAT_QUEUES + 3)})
    publish(warehouse, 7, {"broker-0": 5, "broker-1": 8})
    publish(warehouse, 8, {"broker-0": 50, "broker-1": 8})
    facts, now = PublishedFacts(warehouse.workspace, warehouse.engine), minute(10)
    asked = ASKED.model_copy(update={"span": Span.DAY, "until": minute(12)})
    view = queues_view(asked, facts.of_queues(asked, now), now)
    assert (view.step_ms, len(view.heat), view.heat[0].broker_name) == (360_000, HEAT_QUEUES, "broker-0")
    assert view.heat[0].greatest[-2:] == (1_000, 50)
    assert view.heat[1].greatest[-2:] == (999, 8)
    with pytest.raises(ValidationError, match="30m, 2h, 6h, 24h"):
        AskedQueues(cluster="main", consumer_group="billing", span=Span.WEEK)


@pytest.mark.parametrize(
    ("groups", "brightest"),
    [
        ([{"match": "billing", "max_lag_messages": 500}], {30_000, 10_000, 500}),
        ([{"match": "billing", "max_lag_messages": 0}], {30_000, 10_000, 500, 400}),
        ([], {30_000, 10_000}),  # what holds for all groups
        (None, {30_000}),  # the configuration cannot be read: what waited most
    ],
)
def test_the_picture_is_brightest_from_the_groups_limit_on_and_not_from_what_waited_most(
    tmp_path: Path, groups: list[dict[str, Any]] | None, brightest: set[int]
) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, QUEUE_FACTS, BROKER_FACTS)
    lags = (30_000, 10_000, 500, 400)
    for number, lag in enumerate(lags):
        publish(warehouse, number, {"broker-a": lag})
    config = "clusters: 7" if groups is None else one_team_text(main="10.0.0.1:9876") + f"groups: {groups}"
    (tmp_path / "limits.yml").write_text(config)
    workspace = replace(warehouse.workspace, config_file=tmp_path / "limits.yml")
    asked = ASKED.model_copy(update={"until": minute(len(lags))})
    drawn = WorkspaceViews(workspace, warehouse.engine).queues(asked).picture()
    picture = Image.open(io.BytesIO(drawn)).convert("RGBA")
    colours = [picture.getpixel((picture.width - len(lags) + number, 0)) for number in range(len(lags))]
    assert {lag for lag, colour in zip(lags, colours, strict=True) if colour == BRIGHTEST} == brightest


def test_a_queue_of_unknown_lag_is_shown_before_those_in_which_nothing_waits(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, QUEUE_FACTS, BROKER_FACTS)
    publish(warehouse, 0, {f"broker-{n}": 0 for n in range(HEAT_QUEUES)} | {"unseen": None})
    facts, now = PublishedFacts(warehouse.workspace, warehouse.engine), minute(1)
    view = queues_view(ASKED, facts.of_queues(ASKED, now), now)
    assert (view.heat[0].broker_name, view.heat[0].greatest[-1]) == ("unseen", None)


def test_the_picture_has_a_pixel_for_each_step_brighter_the_more_waits_and_nothing_where_nothing_is_known() -> None:
    drawn = draw([[None, 0, 1, 40], [-3, 0, 9_000_000, 1_000_000]], 1_000_000)
    picture = Image.open(io.BytesIO(drawn)).convert("RGBA")
    assert picture.size == (4, 2)
    pixels = [[picture.getpixel((x, y)) for x in range(4)] for y in range(2)]
    (unknown, nothing, little, more), (beyond, _, beyond_most, most) = pixels
    assert isinstance(unknown, tuple)
    assert isinstance(most, tuple)
    assert unknown[3] == 0
    assert beyond == nothing
    assert most == beyond_most == BRIGHTEST
    sums = [sum(one) for one in (nothing, little, more, most) if isinstance(one, tuple)]
    assert sums == sorted(set(sums))
