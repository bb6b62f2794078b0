"""What a machine lacks is a skip, and never in CI."""

from __future__ import annotations

import pytest

from offsetguard_peers import needs


@pytest.mark.browser
@pytest.mark.parametrize(("ci", "raised"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_what_is_missing_is_said_and_fails_in_ci(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, ci: str, raised: type[BaseException]
) -> None:
    monkeypatch.setitem(needs._LACKS, "browser", lambda: "no Chromium: apt-get install chromium")
    monkeypatch.setenv("CI", ci)
    with pytest.raises(raised, match="apt-get install chromium"):
        needs.refuse_or_skip(request.node)
