"""How many messages of a filtered group's lag are really for it: an estimate with its error, and what it is based on.

A tag or SQL filter works when messages are read, so those that will be filtered out count as lag (incident I3). The
share that matches is measured on what was read lately: brokers count what they hand out, filtered, and the committed
offset passes everything. Two errors are stated, and multiplied:

- *Counting*: of N messages that were passed, k matched; another stretch of the topic would have given another k. The
  range is Wilson's for 95 % (E. B. Wilson, 1927), which also holds for no match in N, where the share is not 0.
- *Timing*: brokers give a rate over their last full minute in steps of 10 s, we count between two readings, and clients
  commit every 5 s. So each of both figures is off by up to one such step of the time that was counted.

NULL is unknown: without a measured share there is no estimate, and a lag of 0 needs none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

Z_95 = 1.959964  # of a normal distribution, both sides
RATE_SECONDS = 60.0  # what brokers' rates cover (StatsItem: 7 samples, 10 s apart)
STEP_SECONDS = 10.0  # a broker's sample; a client's commit is 5 s
MOST_TIMING_ERROR = 0.5


class FilterBasis(StrEnum):
    """What the share that matches was measured on."""

    GET_RATES = "get_rates"  # what all replicas handed out / what was committed, both of about the last minute


@dataclass(frozen=True, slots=True)
class FilterEstimate:
    """Messages of the lag that match the group's filter: most likely, and between what bounds with about 95 %."""

    matching: int
    low: int
    high: int
    hit_ratio: float  # 0..1
    hit_ratio_low: float
    hit_ratio_high: float
    counted: int  # messages that were passed while the share was measured
    basis: FilterBasis


def estimate_matching(
    *,
    lag: int | None,
    hit_ratio: float | None,
    consume_tps: float | None,
    counted_seconds: float = RATE_SECONDS,
) -> FilterEstimate | None:
    """Return the estimate; None when lag, share or rate is not known, or nothing was passed.

    `lag`: messages that wait. `hit_ratio`: share of the passed messages that matched, 0..1 (`GroupFacts.hit_ratio`).
    `consume_tps`: messages per second that the committed offset passed; `counted_seconds`: for how long.
    """
    if lag is None or lag < 0 or hit_ratio is None or consume_tps is None or consume_tps <= 0 or counted_seconds <= 0:
        return None
    counted = round(consume_tps * counted_seconds)
    if counted == 0 or not 0.0 <= hit_ratio <= 1.0:
        return None
    low, high = wilson_range(hit_ratio, counted)
    timing = min(MOST_TIMING_ERROR, STEP_SECONDS / counted_seconds)
    low, high = low * (1.0 - timing), min(1.0, high * (1.0 + timing))
    return FilterEstimate(
        matching=round(lag * hit_ratio),
        low=math.floor(lag * low),
        high=math.ceil(lag * high),
        hit_ratio=hit_ratio,
        hit_ratio_low=low,
        hit_ratio_high=high,
        counted=counted,
        basis=FilterBasis.GET_RATES,
    )


def wilson_range(share: float, count: int) -> tuple[float, float]:
    """Return between what bounds the true share lies with 95 % when `share` of `count` matched; count is above 0."""
    square = Z_95 * Z_95
    middle = share + square / (2 * count)
    reach = Z_95 * math.sqrt(share * (1.0 - share) / count + square / (4.0 * count * count))
    scale = 1.0 + square / count
    return max(0.0, min(share, (middle - reach) / scale)), min(1.0, max(share, (middle + reach) / scale))
