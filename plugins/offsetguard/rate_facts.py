"""Names of what brokers count, and which share of a topic matches a group's filter."""

from __future__ import annotations

READ = "GROUP_GET_NUMS"
POP = "pop"  # of `consumption`
LEAST_COMMITTED_TPS = 0.5  # 30 messages in the minute that the brokers' rates cover: fewer say nothing of a share


def hit_ratio(
    *,
    filtered: bool | None,
    consumption: str | None,
    get_tps: float | None,
    unseen_rate_count: int | None,
    consume_tps: float | None,
) -> float | None:
    """Return the share of messages that match a group's filter, 0..1; None = not filtered, or not known.

    Brokers count what they hand out, filtered; the committed offset passes everything. So their quotient is the share,
    as far as both look at the same minute. What was produced cannot stand in for what was committed: a group that
    catches up passes more. A POP group's rate counts repeated hand-outs as well.
    """
    if not filtered or consumption == POP or unseen_rate_count != 0 or get_tps is None:
        return None
    if consume_tps is None or consume_tps < LEAST_COMMITTED_TPS:
        return None
    return min(1.0, get_tps / consume_tps)
