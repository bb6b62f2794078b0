"""A form counts when the browser says that it is from our own page, and its token was made for this user lately."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard_airflow.web.forms import VALID_S, is_from_own_page, is_valid, new_token

NOW_S = 1_795_000_000.5


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "http://proxy", "host": "airflow"}, True),
        ({"sec-fetch-site": "same-site", "origin": "http://airflow", "host": "airflow"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://airflow", "host": "airflow"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"origin": "http://airflow.example.org:8080", "host": "airflow.example.org:8080"}, True),
        ({"origin": "http://airflow.example.org", "host": "airflow.example.org:8080"}, False),
        ({"origin": "http://evil", "host": "airflow"}, False),
        ({"origin": "http://airflow.evil", "host": "airflow"}, False),
        ({"origin": "http://evil@airflow", "host": "airflow"}, False),
        ({"origin": "null", "host": "airflow"}, False),
        ({"origin": "null", "host": ""}, False),
        ({"origin": "http://[", "host": "["}, False),
        ({"host": "airflow"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_only_our_own_page_may_send_forms(headers: dict[str, str], *, own: bool) -> None:
    assert is_from_own_page(headers) is own


@pytest.mark.parametrize(("age_s", "good"), [(0, True), (VALID_S - 1, True), (VALID_S + 1, False)])
def test_a_token_is_good_for_a_while(age_s: int, *, good: bool) -> None:
    token = new_token("secret", "anna", now_s=NOW_S)
    assert is_valid(token, "secret", "anna", now_s=NOW_S + age_s) is good


def test_a_token_is_good_for_its_user_and_its_server() -> None:
    token = new_token("secret", "anna", now_s=NOW_S)
    assert not is_valid(token, "secret", "bert", now_s=NOW_S)
    assert not is_valid(token, "another", "anna", now_s=NOW_S)


@given(token=st.text(max_size=40))
def test_no_text_is_a_token_by_chance_or_breaks_anything(token: str) -> None:
    assert not is_valid(token, "secret", "anna", now_s=NOW_S)


@given(place=st.integers(min_value=0, max_value=40), character=st.characters())
def test_a_token_that_was_changed_is_none(place: int, character: str) -> None:
    token = new_token("secret", "anna", now_s=NOW_S)
    changed = token[:place] + character + token[place + 1 :]
    assert changed == token or not is_valid(changed, "secret", "anna", now_s=NOW_S)
