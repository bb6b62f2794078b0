"""Forecasts come true on simulated brokers, and people are warned in time; prints what docs/verdicts.md quotes."""

from collections import Counter

import pytest

from offsetguard_peers.simulated.brokers import DAY, KINDS, world
from offsetguard_peers.simulated.forecasts import (
    Tried,
    preventable,
    scored,
    try_worlds,
    warnings,
)


@pytest.fixture(scope="module")
def tried() -> list[Tried]:
    """Let every world live once; the seeds are fixed, so the figures are."""
    return try_worlds((world(kind, seed, 5 * DAY) for kind in KINDS for seed in range(5)), 5 * DAY)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["drain", "loss"])
def test_nine_of_ten_outcomes_lie_inside_the_stated_range(tried: list[Tried], kind: str) -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for one in tried:
        counts.update((str(said.forecast.basis), inside) for said, inside, _ in scored(one) if said.kind == kind)
    for basis in sorted({basis for basis, _ in counts}):
        inside, known = counts[basis, True], counts[basis, True] + counts[basis, False]
        print(f"{kind} by {basis}: {inside:,} of {known:,} outcomes inside ({inside / known:.1%})")  # noqa: T201
    overtaken = Counter(inside for one in tried for said, inside, _ in scored(one, bursts=True) if said.kind == kind)
    print(f"{kind}, with those overtaken by a later burst: {overtaken[True] / overtaken.total():.1%}")  # noqa: T201
    inside = sum(count for (_, is_inside), count in counts.items() if is_inside)
    assert counts.total() > 300
    assert inside / counts.total() >= 0.90


@pytest.mark.slow
def test_whoever_can_prevent_a_loss_is_warned_half_an_hour_before(tried: list[Tried]) -> None:
    losses = Counter(warned for one in tried for _, _, warned in preventable(one))
    print(f"losses that could be prevented: {losses.total()}, warned of 30 min before: {losses[True]}")  # noqa: T201
    assert losses.total() >= 30
    assert losses[True] / losses.total() >= 0.95


@pytest.mark.slow
def test_few_warnings_are_false(tried: list[Tried]) -> None:
    found = Counter(false for one in tried for _, _, false in warnings(one))
    print(f"warnings: {found.total()}, without a loss or anybody's help: {found[True]}")  # noqa: T201
    assert found[True] / found.total() <= 0.15


@pytest.mark.slow  # two days of looks, a fold each
def test_a_world_without_trouble_has_no_warning() -> None:
    quiet = world("time", 7, 2 * DAY)
    for queue in quiet.broker.queues:
        queue.consumed = lambda _minute: 1e9
    (found,) = try_worlds([quiet], 2 * DAY)
    assert (found.warned, found.losses) == ({}, [])
