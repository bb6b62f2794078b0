"""Figures of broker replicas as findings show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetguard.facts import IntervalFacts


def rounded_rate(tps: float | None) -> int | float | None:
    """Return a rate without digits that nobody needs: whole from 10 per second on, else tenths."""
    if tps is None:
        return None
    return round(tps) if tps >= 10 or tps == 0 else round(tps, 1)


def slave_behind_bytes(facts: IntervalFacts, broker_names: Collection[str]) -> int | None:
    """Return by how much the slave of these brokers that is furthest behind lags; None = not seen."""
    found = (one.slave_behind_bytes for one in facts.brokers if one.broker_name in broker_names)
    return max((behind for behind in found if behind is not None), default=None)
