"""One test over a list of cases, which tells at its end every case that failed: a thousand cases cost one report."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from _pytest.mark import ParameterSet

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
