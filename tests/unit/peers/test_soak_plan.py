"""What a soak draws leaves time for its promises: groups are seen to be well, and four rounds follow each outage."""

from __future__ import annotations

import random
from itertools import pairwise

from offsetguard_peers.cases.running import for_each
from offsetguard_peers.trials.soak_plan import NAMED_BY_ROUND, WATCHED_S, WELL_FOR_S, Span, draw_outages, well_from_s

SHORTEST_S, MOST_SHORT_S, LONG_S, LONGEST_S = 120.0, 300.0, 600.0, 1_200.0


def drawn(seed: int, minutes: float) -> list[Span]:
    return draw_outages(random.Random(seed), minutes * 60)  # noqa: S311 what happens is no secret


@for_each("seed", range(50))
def test_half_an_hour_has_one_long_outage_and_what_fits_beside_it_with_four_rounds_after_each(seed: int) -> None:
    outages = drawn(seed, 30)
    lengths = sorted(end - begin for begin, end in outages)
    assert LONG_S <= lengths[-1] <= LONGEST_S
    assert all(SHORTEST_S <= one <= MOST_SHORT_S for one in lengths[:-1])
    watched = [later[0] - one[1] for one, later in pairwise([*outages, (1_800.0, 1_800.0)])]
    assert min(watched) >= WATCHED_S >= (NAMED_BY_ROUND - 1) * 60.0


def test_a_soak_of_some_minutes_has_none() -> None:
    assert drawn(1, 8) == []


@for_each(
    "at_s, since", [(200.0, 50.0), (380.0, 150.0), (430.0, 180.0), (450.0, 200.0), (490.0, 230.0), (550.0, 280.0)]
)
def test_a_group_is_watched_while_it_is_well_and_outages_do_not_count(at_s: float, since: float) -> None:
    assert WELL_FOR_S == 150.0
    assert well_from_s(at_s, [(300.0, 400.0), (480.0, 500.0)]) == since
