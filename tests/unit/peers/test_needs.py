"""What a machine lacks is a skip, and never in CI; what takes longest begins first."""

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


def test_long_groups_begin_first_and_the_others_stay_in_their_order(request: pytest.FixtureRequest) -> None:
    items: list[pytest.Item] = []
    for group in ("tests/unit/b.py", "clusters", "tests/unit/a.py", "spark"):
        item = pytest.Function.from_parent(request.node.parent, name=request.node.name, callobj=request.node.obj)
        item.add_marker(pytest.mark.xdist_group(group))
        items.append(item)
    needs.put_longest_first(items)
    order = [one.get_closest_marker("xdist_group").args[0] for one in items]
    assert order == ["spark", "clusters", "tests/unit/b.py", "tests/unit/a.py"]
