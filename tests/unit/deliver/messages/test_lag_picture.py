"""The picture of a lag is small, the same each time, and drawn only for mails that have one."""

import io
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from offsetguard.deliver.messages import lag_picture
from offsetguard.model.views import LAG_POINTS, LagPoint
from offsetguard_peers.cases.running import examples

START = datetime(2026, 11, 21, 6, 45, tzinfo=UTC)
LARGEST_BYTES = 20_000


def curve(*lags: int) -> tuple[LagPoint, ...]:
    return tuple(LagPoint(at=START + timedelta(minutes=n), lag=lag) for n, lag in enumerate(lags))


@settings(max_examples=examples(0.1))
@given(lags=st.lists(st.integers(0, 2**63), min_size=3, max_size=LAG_POINTS))
def test_a_picture_has_its_size_and_few_bytes_and_is_the_same_each_time(lags: list[int]) -> None:
    png = lag_picture.draw(curve(*lags), UTC)
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.format == "PNG"
        assert picture.size == (2 * lag_picture.WIDTH, 2 * lag_picture.HEIGHT)
        assert set(picture.info) <= {"transparency"}, "no name of a program, no moment"
    assert len(png) <= LARGEST_BYTES
    assert lag_picture.draw(curve(*lags), UTC) == png


def test_the_curve_rises_where_the_lag_does() -> None:
    """Coloured pixels of the left and of the right half: what is drawn is the lag."""
    with Image.open(io.BytesIO(lag_picture.draw(curve(0, 0, 0, 1_000, 2_000), UTC))) as picture:
        pixels = picture.convert("RGB")
    left, right = (sum(_coloured(pixels, half)) for half in (range(280, 560), range(560, 1_120)))
    assert right > 5 * left


def test_times_are_those_of_the_readers_zone() -> None:
    here, there = (lag_picture.draw(curve(1, 2, 3), zone) for zone in (UTC, timezone(timedelta(hours=8))))
    assert here != there


def test_a_mail_without_a_picture_does_not_pay_for_drawing() -> None:
    """Who delivers imports the mail module; matplotlib comes with the first curve."""
    program = "import sys, offsetguard.deliver.messages.mail; print('matplotlib' in sys.modules, 'PIL' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]


def _coloured(picture: Image.Image, columns: range) -> list[bool]:
    """Tell for pixels of the middle line of some columns whether the area below the curve covers them."""
    line = picture.height // 2
    pixels = [picture.getpixel((column, line)) for column in columns]
    return [isinstance(pixel, tuple) and max(pixel) - min(pixel) > 20 for pixel in pixels]
