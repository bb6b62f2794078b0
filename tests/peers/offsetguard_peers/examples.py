"""How many examples hypothesis tries: few where everybody waits for them, many in `make test-all`.

`OFFSETGUARD_EXAMPLES=thorough` or `pytest --hypothesis-profile thorough` choose the many. A test whose examples are
slow or quick says `@settings(max_examples=examples(0.2))`: a fifth of what the profile has. Where one query is what
takes long, `@together(...)` gives a test ten examples at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

QUICK, THOROUGH = "quick", "thorough"
THOROUGH_EXAMPLES = 200


def load_profile() -> None:
    """Let the environment choose; before any test file is imported, because `examples` looks then."""
    for name, count in ((QUICK, 10), (THOROUGH, THOROUGH_EXAMPLES)):
        # On a busy machine an example may take any time: that says nothing about what is tested. What hypothesis does
        # where CI is set, the same examples in each run, stays as it is.
        settings.register_profile(name, max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile(os.environ.get("OFFSETGUARD_EXAMPLES", QUICK))


def is_thorough() -> bool:
    """Whether a test may take all cases where a part of them would do for everybody's run."""
    return settings().max_examples >= THOROUGH_EXAMPLES


def examples(times: float) -> int:
    """Return a test's own number of examples: so many times that of the profile, and two at least."""
    return max(2, round(settings().max_examples * times))


def together(*drawn: st.SearchStrategy[Any]) -> Callable[[Callable[[list[Any]], None]], Callable[[], None]]:
    """Give a test a list of ten tuples of what is drawn, a tenth as often: a query takes as long for ten as for one."""
    of_ten = given(st.lists(st.tuples(*drawn), min_size=10, max_size=10))
    return lambda test: settings(max_examples=round(settings().max_examples / 10))(of_ten(test))
