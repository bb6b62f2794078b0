"""The two images, built once from this checkout."""

import os
import time
from pathlib import Path

import pytest

from offsetguard_peers.docker.engine import compose, docker_missing, ensure_base_images
from offsetguard_peers.needs import fail_or_skip

REPOSITORY = Path(__file__).parents[2]
BUILD_WITHIN_S = 3_600.0  # 4 min on an idle machine


@pytest.fixture(scope="session")
def images() -> dict[str, float]:
    """Build both images; returns the seconds that each took. OFFSETGUARD_BUILT=yes: they are there."""
    if reason := docker_missing():
        fail_or_skip(reason)
    ensure_base_images()
    seconds: dict[str, float] = {}
    for service in ("scheduler", "receivers"):
        if os.environ.get("OFFSETGUARD_BUILT") != "yes":
            began = time.monotonic()
            compose(REPOSITORY, "--profile", "demo", "build", service, timeout_s=BUILD_WITHIN_S)
            seconds[service] = round(time.monotonic() - began, 1)
    return seconds
