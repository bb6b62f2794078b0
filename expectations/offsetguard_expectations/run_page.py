"""The page of one run: what is violated, where, and what to do, readable in ten seconds and without a network.

One self-contained HTML file: no script, no font, nothing fetched. All text goes through Jinja's autoescape: names of
groups, topics and brokers are whatever their owners typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from offsetguard.model.intervals import Interval
from offsetguard_expectations.run_report import RunReport

NOTHING_SEEN = "nothing-seen"


@dataclass(frozen=True, slots=True)
class RecentRun:
    """An earlier run, for the strip of links."""

    interval: Interval
    flagged_ids: tuple[str, ...]  # violated or not checked, or NOTHING_SEEN


def render_run_page(report: RunReport, recent_runs: Sequence[RecentRun] = ()) -> str:
    """Return the HTML of a run; `recent_runs` are linked, oldest first."""
    this_run = RecentRun(report.interval, flagged_ids(report))
    runs = sorted(
        (*(run for run in recent_runs if run.interval != report.interval), this_run), key=lambda run: run.interval
    )
    return ENVIRONMENT.get_template("run.html.j2").render(report=report, this_run=this_run, runs=runs)


def flagged_ids(report: RunReport) -> tuple[str, ...]:
    """Return the ids that keep a run from being good."""
    if report.nothing_seen:
        return (NOTHING_SEEN,)
    return tuple(outcome.invariant.id for outcome in (*report.violated, *report.not_checked))


def _count(number: int, noun: str = "") -> str:
    """1234, "row" -> '1,234 rows'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if noun else f"{number:,}"


def _prose(text: str) -> Markup:
    """Escape a text and set what stands between backticks as code."""
    parts = (escape(part) for part in text.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


ENVIRONMENT = Environment(
    loader=PackageLoader("offsetguard_expectations"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters["count"] = _count
ENVIRONMENT.filters["prose"] = _prose
