"""How tests go through cases: lists of them, case files, and hypothesis's examples.

`for_each` is one test over a list of cases, which tells at its end every case that failed: a thousand cases cost one
report. Of hypothesis's examples there are few where everybody waits for them, and many in `make test-all`:
`OFFSETGUARD_EXAMPLES=thorough` or `pytest --hypothesis-profile thorough` choose the many. A test whose examples are
slow or quick says `@settings(max_examples=examples(0.2))`: a fifth of what the profile has. Where one query is what
takes long, `@together(...)` gives a test ten examples at once.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

import yaml
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SHOWN_FAILURES = 10
SHOWN_LINES = 6  # of each failure
SHOWN_NAME = 120  # characters


def for_each(
    names: str, cases: Iterable[Any], name_of: Callable[[Any], object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with each case, as `pytest.mark.parametrize` would, and fail at the end with all that failed.

    `names`: the test's arguments that a case gives, separated by commas; of several a case is a tuple. All others are
    fixtures, which all cases share. `name_of`: what a failure calls a case; without it the id of a `pytest.param`, or
    the case itself.
    """
    named = [_named(case, name_of) for case in cases]
    assert named, "no case: nothing would be tested"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        given = [name.strip() for name in names.split(",")]

        @wraps(test, updated=())
        def over_all(**fixtures: Any) -> None:
            failures: list[tuple[str, Exception]] = []
            for name, case in named:
                arguments = dict(zip(given, case if len(given) > 1 else [case], strict=True))
                try:
                    test(**fixtures, **arguments)
                except Exception as failure:  # noqa: BLE001 whatever it is, it is told at the end
                    failures.append((name, failure))
            if failures:
                raise AssertionError(_told(failures, len(named))) from failures[0][1]

        parameters = inspect.signature(test).parameters.values()
        signature = inspect.Signature([each for each in parameters if each.name not in given])
        over_all.__signature__ = signature  # type: ignore[attr-defined] # by which pytest knows the fixtures
        return over_all

    return decorated


def _named(case: Any, name_of: Callable[[Any], object] | None) -> tuple[str, Any]:
    id_ = None
    if isinstance(case, ParameterSet):
        id_, case = case.id, case.values[0] if len(case.values) == 1 else case.values
    name = str(id_ or (name_of(case) if name_of else case))
    return name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}...", case


def _told(failures: Sequence[tuple[str, Exception]], count: int) -> str:
    lines = [f"{len(failures)} of {count} cases failed"]
    for name, failure in failures[:SHOWN_FAILURES]:
        first, *rest = (str(failure) or repr(failure)).splitlines()[:SHOWN_LINES]
        kind = "" if isinstance(failure, AssertionError) else f"{type(failure).__name__}: "
        lines += [f"- {name}: {kind}{first}", *(f"    {line}" for line in rest)]
    if others := [name for name, _ in failures[SHOWN_FAILURES:]]:
        lines.append(f"- and {len(others)} more: {', '.join(others)}")
    return "\n".join(lines)


_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read_cases(file: Path) -> Any:
    """Return what a YAML file holds; everybody gets the same, so leave it as it is."""
    return yaml.load(file.read_text(encoding="utf-8"), _LOADER)  # noqa: S506 both loaders are safe ones


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
