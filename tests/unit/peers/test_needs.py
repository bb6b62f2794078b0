"""Markers and workers follow from what a test asks for; what a machine lacks is a skip, and never in CI."""

from __future__ import annotations

import pytest

from offsetguard_peers import needs


def marks(request: pytest.FixtureRequest) -> set[str]:
    return {mark.name for mark in request.node.iter_markers()}


@pytest.mark.postgres
def test_who_starts_postgresql_is_slow_and_shares_a_worker(request: pytest.FixtureRequest) -> None:
    assert marks(request) >= {"slow", "postgres"}
    assert request.node.get_closest_marker("xdist_group").args == ("postgres",)


def test_others_stay_with_their_file(request: pytest.FixtureRequest) -> None:
    assert "slow" not in marks(request)
    assert request.node.get_closest_marker("xdist_group").args == ("tests/unit/peers/test_needs.py",)


@pytest.mark.browser
@pytest.mark.parametrize(("ci", "raised"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_what_is_missing_is_said_and_fails_in_ci(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, ci: str, raised: type[BaseException]
) -> None:
    monkeypatch.setitem(needs._LACKS, "browser", lambda: "no Chromium: apt-get install chromium")
    monkeypatch.setenv("CI", ci)
    with pytest.raises(raised, match="apt-get install chromium"):
        needs.refuse_or_skip(request.node)
