"""Screenshots with the system's Chromium, driven by Playwright (which brings no browser of its own here).

screenshot("http://127.0.0.1:8080/", Path("docs/page.png"), steps=log_in)
python -m offsetguard_peers.pictures.chromium URL_OR_FILE PNG
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


def screenshot(
    target: str | Path,
    png: Path,
    *,
    steps: Callable[[Page], None] | None = None,
    width: int = 1280,
    height: int = 900,
    whole_page: bool = True,
    wait_for: str | None = None,
    timeout_ms: int = 180_000,
) -> Path:
    """Open a URL or an HTML file, do `steps` (log in, click), and write a PNG; returns its path.

    `wait_for`: a CSS selector that must be visible before the picture is taken.
    """
    with open_page(width=width, height=height) as page:
        page.set_default_timeout(timeout_ms)
        page.goto(target.resolve().as_uri() if isinstance(target, Path) else target)
        if steps is not None:
            steps(page)
        if wait_for is not None:
            page.wait_for_selector(wait_for)
        png.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=png, full_page=whole_page)
    return png


def log_in(page: Page, user: str, password: str) -> None:
    """Fill in a login form with fields `username` and `password`, as Airflow's has."""
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.keyboard.press("Enter")
    page.wait_for_load_state("networkidle")


if __name__ == "__main__":
    address = sys.argv[1]
    print(screenshot(Path(address) if Path(address).exists() else address, Path(sys.argv[2])))
