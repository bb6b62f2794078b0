"""The small picture of a lag in a mail: how many messages waited, sample by sample.

Only numbers and times stand in it, so that it reads in every language and needs no font but the one that comes with
matplotlib; what it shows stands in words in its alt text (`wording.lag_in_words`). It is drawn on white, also for
readers in the dark: a picture cannot follow.
Importing this module takes most of a second: `mail.py` does it for the first mail with a picture, and never before.
"""

import io
import threading
from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image

from offsetguard.model.views import LagPoint

WIDTH, HEIGHT = 560, 180  # of the picture in the mail, in CSS pixels
SHARPNESS = 2  # pixels of the file to a CSS pixel
_DPI = 72
_VALUE_SIZE, _TIME_SIZE = 17, 15  # points; a phone shows the picture at 0.6 of its width
_LINE, _AREA, _INK, _QUIET, _GRID = "#b54708", "#fdead7", "#101828", "#667085", "#e4e7ec"
_COLOURS_KEPT = 32  # a drawing of five colours with soft edges: a palette makes it a third of the bytes
_ONE_AT_A_TIME = threading.Lock()  # matplotlib is not made for threads, and deliverers have some


@lru_cache(maxsize=64)
def draw(points: tuple[LagPoint, ...], zone: tzinfo) -> bytes:
    """Return a PNG of WIDTH x HEIGHT at double density; the same points are the same bytes.

    Remembers the newest ones: all receivers of a message get the same.
    `points`: oldest first, at least `views.LEAST_LAG_POINTS`. `zone`: of the times that it shows.
    """
    with _ONE_AT_A_TIME:
        return _drawn(points, zone)


def _drawn(points: Sequence[LagPoint], zone: tzinfo) -> bytes:
    figure = Figure(figsize=(WIDTH / _DPI, HEIGHT / _DPI), dpi=_DPI * SHARPNESS, facecolor="white")
    axes = figure.add_axes((0.015, 0.17, 0.97, 0.64))
    seconds = [point.at.timestamp() for point in points]
    lags = [float(point.lag) for point in points]
    peak = max(range(len(lags)), key=lambda n: lags[n])
    _set_up(axes, seconds, lags[peak])
    axes.fill_between(seconds, lags, color=_AREA, linewidth=0)
    axes.plot(seconds, lags, color=_LINE, linewidth=2.4, solid_joinstyle="round")
    marked = {peak, len(points) - 1} if lags[-1] != lags[peak] else {len(points) - 1}
    for n in sorted(marked):
        axes.plot([seconds[n]], [lags[n]], "o", color=_LINE, markersize=6, clip_on=False)
    for n in sorted(marked | ({0} if _is_apart(seconds, marked) else set())):
        _write_value(axes, seconds, lags, n)
    _write_times(axes, seconds, [point.at for point in points], marked, zone)
    drawn, reduced = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="rgba", dpi=_DPI * SHARPNESS)
    picture = Image.frombytes("RGBA", (WIDTH * SHARPNESS, HEIGHT * SHARPNESS), drawn.getvalue()).convert("RGB")
    palette = picture.quantize(_COLOURS_KEPT, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette.save(reduced, "PNG", optimize=True)
    return reduced.getvalue()


def _set_up(axes: Axes, seconds: Sequence[float], highest: float) -> None:
    """Show from the first to the last sample, and from no lag at all to a little above the highest."""
    axes.set_xlim(seconds[0], max(seconds[-1], seconds[0] + 1))
    axes.set_ylim(0, max(highest, 1) * 1.04)
    axes.axis("off")
    axes.axhline(0, color=_GRID, linewidth=1.5, clip_on=False)


def _is_apart(seconds: Sequence[float], marked: set[int]) -> bool:
    """Whether the first sample's figure has room beside those that are marked."""
    length = seconds[-1] - seconds[0]
    return all(seconds[n] - seconds[0] > 0.2 * length for n in marked)


def _write_value(axes: Axes, seconds: Sequence[float], lags: Sequence[float], n: int) -> None:
    place = (seconds[n] - seconds[0]) / max(1.0, seconds[-1] - seconds[0])
    axes.annotate(
        f"{lags[n]:,.0f}",
        (seconds[n], lags[n]),
        xytext=(0, 6),
        textcoords="offset points",
        ha=_side(place),
        va="bottom",
        fontsize=_VALUE_SIZE,
        fontfamily="DejaVu Sans",
        fontweight="bold" if n else "normal",
        color=_INK if n else _QUIET,
        annotation_clip=False,
        path_effects=[withStroke(linewidth=3, foreground="white")],  # readable where the curve passes through
    )


def _write_times(
    axes: Axes, seconds: Sequence[float], moments: Sequence[datetime], marked: set[int], zone: tzinfo
) -> None:
    """Write when the curve begins, where it is highest and where it ends; what would overlap is left out."""
    length = max(1.0, seconds[-1] - seconds[0])
    places = {n: (seconds[n] - seconds[0]) / length for n in {0, len(seconds) - 1, *marked}}
    for n, place in places.items():
        if n in {0, len(seconds) - 1} or 0.15 < place < 0.85:
            axes.annotate(
                moments[n].astimezone(zone).strftime("%H:%M"),
                (seconds[n], 0),
                xytext=(0, -5),
                textcoords="offset points",
                ha=_side(place),
                va="top",
                fontsize=_TIME_SIZE,
                fontfamily="DejaVu Sans",
                color=_QUIET,
                annotation_clip=False,
            )


def _side(place: float) -> str:
    return "left" if place < 0.12 else "right" if place > 0.88 else "center"
