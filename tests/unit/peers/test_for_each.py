"""A test over a list of cases runs all of them, and its failure names each that failed."""

import pytest

from offsetguard_peers.cases.running import for_each


def test_every_case_runs_and_all_failures_are_told() -> None:
    seen = []

    @for_each("number, text", [(1, "a"), (2, "b"), (3, "c")], name_of=lambda case: f"case {case[0]}")
    def odd(number: int, text: str, fixture: str) -> None:
        seen.append((number, text, fixture))
        assert number == 2, "it is odd"
        raise KeyError(text)

    with pytest.raises(AssertionError) as failure:
        odd(fixture="f")
    assert seen == [(1, "a", "f"), (2, "b", "f"), (3, "c", "f")]
    first, *told = str(failure.value).splitlines()
    assert first == "3 of 3 cases failed"
    assert [line for line in told if line.startswith("-")] == [
        "- case 1: it is odd",
        "- case 2: KeyError: 'b'",
        "- case 3: it is odd",
    ]


def test_a_list_without_a_case_is_refused() -> None:
    with pytest.raises(AssertionError, match="nothing would be tested"):
        for_each("number", [])
