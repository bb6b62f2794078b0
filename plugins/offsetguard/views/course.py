"""The course of a figure over a span, in few enough points for a picture, with every peak and every gap kept.

A span is cut into POINTS equal steps, no shorter than an interval. Of each step the least, the greatest and the last
figure are kept, so that a peak of one minute shows in a month; a step of which nothing is known is a gap, never zero.
NumPy goes through the rows: pyarrow's `group_by`, its `to_numpy`, and its functions where an argument is a number or a
moment of Python import pyarrow's datasets and pandas, 80 MiB, into the API server.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from offsetguard.lake.reading import numbers_of
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.views import Record
from offsetguard.views.fleet import Trust, trust_in
from offsetguard.views.listing import EMPTY_IS_NONE

POINTS = 240
WIDTH, HEIGHT = 720, 120  # of a picture, in its own units
_EPOCH, _US, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1), timedelta(milliseconds=1)


class Span(StrEnum):
    """How far the courses reach back."""

    HALF_HOUR = "30m"
    TWO_HOURS = "2h"
    SIX_HOURS = "6h"
    DAY = "24h"
    THREE_DAYS = "3d"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def length(self) -> timedelta:
        """As a length of time."""
        number, unit = int(self.value[:-1]), self.value[-1]
        return number * {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}[unit]


USUAL_SPAN = Span.SIX_HOURS

# RocketMQ's own limit; PostgreSQL refuses NUL, and what is collected has none
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]


# A moment that spans and zones can be reckoned from; in UTC
AskedMoment = Annotated[
    AwareDatetime,
    Field(ge=datetime(2000, 1, 1, tzinfo=UTC), le=datetime(9000, 1, 1, tzinfo=UTC)),
    AfterValidator(lambda moment: moment.astimezone(UTC)),
]


_AskedEnd = Annotated[AskedMoment | None, EMPTY_IS_NONE, Field(validate_default=True)]


class AskedRange(BaseModel):
    """From when to when; what else is asked stands in the fields of who inherits it."""

    model_config = ConfigDict(frozen=True)
    SPANS: ClassVar = tuple(Span)  # that can be asked for

    since: Annotated[AskedMoment | None, EMPTY_IS_NONE] = None  # from here to `until`, or to now; in place of a span
    until: _AskedEnd = None  # the end of the span; without it the newest facts

    @field_validator("until")
    @classmethod
    def _is_now_where_only_a_start_is(cls, until: datetime | None, asked: ValidationInfo) -> datetime | None:
        return datetime.now(UTC) if until is None and asked.data.get("since") is not None else until

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.since is not None and not timedelta() < self.length_or(USUAL_SPAN) <= self.SPANS[-1].length:
            raise ValueError(f"until is after since, by {self.SPANS[-1]} at most")
        return self

    def length_or(self, span: Span) -> timedelta:
        """Return the length of what is asked; `span`: where no `since` is."""
        return span.length if self.since is None or self.until is None else self.until - self.since


class AskedSpan(AskedRange):
    """What a reader asked for; it stands in the address."""

    cluster: Name  # as the configuration calls it
    # how far courses and ended incidents reach back; without it as far as there are facts, six hours at most
    span: Annotated[Span | None, EMPTY_IS_NONE] = None

    @property
    def length(self) -> timedelta:
        """The span as a length of time."""
        return self.length_or(self.span or USUAL_SPAN)

    def filled(self, oldest: datetime | None, now: datetime) -> Self:
        """Return it with a span: without one, the shortest that has everything since `oldest`."""
        if self.span is not None or self.since is not None:
            return self
        span = USUAL_SPAN
        if oldest is not None:
            span = next((one for one in self.SPANS if one.length >= now - oldest), self.SPANS[-1])
        return self.model_copy(update={"span": span})

    def shown(self, facts_of: datetime | None, now: datetime) -> tuple[Trust, datetime, datetime]:
        """Return how far the newest facts can be trusted, and the span that is shown.

        It ends with them while they are fresh: what is not due yet is no gap.
        """
        trust = trust_in(facts_of, now)
        until = self.until or (facts_of if facts_of is not None and trust is Trust.FRESH else now)
        return trust, until - self.length, until


class CoursePoint(Record):
    """One step; all None: nothing is known of it."""

    at: datetime  # its start
    least: float | None = None
    greatest: float | None = None
    last: float | None = None
    at_least: bool = False  # not everything was read: the figures may be greater


class Course(Record):
    """One figure over the span."""

    figure: str  # a column of group_facts: its suffix tells the unit
    step_ms: int
    points: tuple[CoursePoint, ...]  # oldest first, one for each step
    greatest: float | None  # of the whole span
    least: float | None  # likewise
    newest: float | None  # of its last step
    gap_count: int  # how often nothing was known for a while
    unknown_ms: int  # how long that was together
    at_least_ms: int  # of the steps in which the figures may be greater


def course_of(
    rows: pa.Table,
    figure: str,
    since: datetime,
    until: datetime,
    together: np.ufunc = np.add,
    *,
    partly_us: np.ndarray[Any, Any] | None = None,
) -> Course:
    """Return a figure's course in [since, until); `rows`: `interval_start` and the figure.

    `together`: what several rows of an interval say together. `partly_us`: starts of intervals in which not everything
    was read.
    """
    step = max(INTERVAL_LENGTH, (until - since) / POINTS)
    count = -(-(until - since) // step)
    known = rows.filter(pc.is_valid(rows[figure])).sort_by("interval_start")
    starts_us = numbers_of(known["interval_start"].cast(pa.int64()))
    first = np.searchsorted(starts_us, microseconds(since))
    figures, starts_us = numbers_of(known[figure])[first:], starts_us[first:]
    if len(firsts := _firsts_of_runs(starts_us)):
        figures, starts_us = together.reduceat(figures, firsts), starts_us[firsts]
    places = (starts_us - microseconds(since)) // (step // _US)
    found = {}
    if len(firsts := _firsts_of_runs(places)):
        lasts = figures[np.append(firsts[1:], len(figures)) - 1]
        columns = places[firsts], np.minimum.reduceat(figures, firsts), np.maximum.reduceat(figures, firsts), lasts
        found = {place: three for place, *three in zip(*(one.tolist() for one in columns), strict=True)}
    partly = set() if partly_us is None else {*((partly_us - microseconds(since)) // (step // _US)).tolist()}
    points = []
    for place in range(count):
        least, greatest, last = found.get(place, (None, None, None))
        is_least = last is not None and place in partly
        point = CoursePoint(at=since + place * step, least=least, greatest=greatest, last=last, at_least=is_least)
        points.append(point)
    gaps = [len(list(run)) for known, run in groupby(points, key=lambda one: one.last is not None) if not known]
    return Course(
        figure=figure,
        step_ms=step // _MS,
        points=tuple(points),
        greatest=max((one.greatest for one in points if one.greatest is not None), default=None),
        least=min((one.least for one in points if one.least is not None), default=None),
        newest=points[-1].last,
        gap_count=len(gaps),
        unknown_ms=sum(gaps) * step // _MS,
        at_least_ms=sum(one.at_least for one in points) * step // _MS,
    )


def microseconds(moment: datetime) -> int:
    """Return a moment as Arrow has it, since 1970."""
    return (moment - _EPOCH) // _US


def _firsts_of_runs(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the places at which another value begins."""
    return np.flatnonzero(np.append(len(values) > 0, values[1:] != values[:-1]))


class Band(Record):
    """A piece of the width: from x, so wide."""

    x: float
    width: float


class Plot(Record):
    """A course as the picture needs it; an SVG of WIDTH by HEIGHT, the greatest figure at its top."""

    top: float  # the figure at y = 0
    lines: tuple[str, ...]  # `points` of polylines: the last figures
    bands: tuple[str, ...]  # `points` of polygons: least to greatest
    gaps: tuple[Band, ...]  # nothing is known
    at_least: tuple[Band, ...] = ()  # not everything is


def plot_of(course: Course, top: float = 0) -> Plot:
    """Return the picture of a course; `top`: a figure that is to be on it, too."""
    step, top = WIDTH / len(course.points), max(course.greatest or 0, top) or 1
    numbered = enumerate(course.points)
    runs = [(known, list(run)) for known, run in groupby(numbered, key=lambda one: one[1].last is not None)]

    def drawn(figures: Iterable[tuple[float, float | None]]) -> str:
        return " ".join(f"{(n + 0.5) * step:.1f},{HEIGHT * (1 - (figure or 0) / top):.1f}" for n, figure in figures)

    seen = [run for known, run in runs if known]
    return Plot(
        top=top,
        lines=tuple(drawn((n, one.last) for n, one in _at_least_a_dash(run)) for run in seen),
        bands=tuple(
            drawn([*((n, one.greatest) for n, one in run), *((n, one.least) for n, one in reversed(run))])
            for run in seen
        ),
        gaps=tuple(Band(x=run[0][0] * step, width=len(run) * step) for known, run in runs if not known),
        at_least=tuple(Band(x=n * step, width=step) for n, one in enumerate(course.points) if one.at_least),
    )


def usual_of(usual: Sequence[Course], top: float) -> tuple[str, ...]:
    """Return the `points` of polygons, a spread below and above the mean; `usual`: these two, or nothing is usual."""
    if not usual:
        return ()
    mean, spread = usual
    step = WIDTH / len(mean.points)
    numbered = (
        (n + 0.5, one.last, other.last or 0)
        for n, (one, other) in enumerate(zip(mean.points, spread.points, strict=True))
    )
    found = []
    for known, run in groupby(numbered, key=lambda one: one[1] is not None):
        if known:
            edge = [(n, middle or 0, by) for n, middle, by in run]
            if len(edge) == 1:
                edge = [(edge[0][0] + by, *edge[0][1:]) for by in (-0.5, 0.5)]
            corners = [
                *((n, middle + by) for n, middle, by in edge),
                *((n, max(middle - by, 0)) for n, middle, by in reversed(edge)),
            ]
            found.append(" ".join(f"{n * step:.1f},{HEIGHT * (1 - figure / top):.1f}" for n, figure in corners))
    return tuple(found)


def spark_of(figures: Sequence[float | None], height: int) -> tuple[str, ...]:
    """Return the polylines of a small picture, a unit wide for each figure; None is a gap."""
    top = max((one for one in figures if one is not None), default=0) or 1
    runs = [list(run) for known, run in groupby(enumerate(figures), key=lambda one: one[1] is not None) if known]
    # a point is drawn as a short line
    dashed = [run if len(run) > 1 else [run[0], (run[0][0] + 0.5, run[0][1])] for run in runs]
    return tuple(" ".join(f"{x:g},{height * (1 - (one or 0) / top):.1f}" for x, one in run) for run in dashed)


def band_of(start: datetime, end: datetime, since: datetime, until: datetime) -> Band:
    """Return where something that lasted from `start` to `end` lies in the picture; at least a hair wide."""
    left, right = (place_of(min(max(moment, since), until), since, until) for moment in (start, end))
    return Band(x=min(left, WIDTH - 1.0), width=max(right - left, 1.0))


def place_of(moment: datetime, since: datetime, until: datetime) -> float:
    """Return where a moment lies in the picture of a span, or beyond it."""
    return WIDTH * ((moment - since) / (until - since))


def _at_least_a_dash(run: Sequence[tuple[int, CoursePoint]]) -> Iterator[tuple[float, CoursePoint]]:
    """Give a single point as a short line: a polyline of one point draws nothing."""
    if len(run) == 1:
        ((place, point),) = run
        yield from ((place - 0.5, point), (place + 0.5, point))
    else:
        yield from run
