"""The system's Chromium, driven by Playwright (which brings no browser of its own here)."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

# A closed network: without these flags Chromium looks up its maker's hosts at every start.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class NoBrowser(Exception):
    """There is no Chromium; the text says how to install one."""


def chromium_path() -> str:
    """Find the system's Chromium; NoBrowser when there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    msg = "no Chromium was found in PATH: apt-get install chromium"
    raise NoBrowser(msg)


@contextmanager
def open_page(*, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """Open an empty page in a new browser with an empty profile; closed afterwards."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS), timeout=180_000)
        try:
            yield browser.new_page(viewport={"width": width, "height": height})
        finally:
            browser.close()


def log_in(page: Page, user: str, password: str) -> None:
    """Fill in a login form with fields `username` and `password`, as Airflow's has."""
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.keyboard.press("Enter")
    page.wait_for_load_state("networkidle")


def shrink(png: Path) -> None:
    """Give a picture a palette of 64 colours: pages and mails are drawings."""
    with Image.open(png) as picture:
        picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(png, optimize=True)
