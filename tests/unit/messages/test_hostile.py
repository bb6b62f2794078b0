"""No text from a broker can break a line, hide in one or turn its direction; what was there stays visible."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.deliver.messages.wording import harmless, harmless_link


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-group", "order-group"),
        ("订单-组 ñ 🔴", "订单-组 ñ 🔴"),
        ("a\r\nBcc: x@example.com", "a\\r\\nBcc: x@example.com"),
        ("group\u202egnp.exe", "group\\u202egnp.exe"),
        ("pay\u200bments", "pay\\u200bments"),
        ("\ud800", "\\ud800"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u2028b\x85c", "a\\u2028b\\x85c"),
        ("abcdefghijkl", "abcdefghijkl"),
    ],
)
def test_what_could_do_harm_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert harmless(text, 100) == shown


@given(st.text(st.characters() | st.characters(categories=["Cs", "Cf", "Cc"])), st.integers(1, 50))
def test_any_text_becomes_one_short_line_that_can_be_encoded(text: str, limit: int) -> None:
    shown = harmless(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown.encode("utf-8")


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "http://good.example@evil.example/",
        'http://x/"><script>',
        "http://x/a|b",
        "http://x/ y",
        "http://x/\u202e",
        "http://[",
        "//x/y",
        "",
        None,
        "http://x/" + "a" * 3_000,
    ],
)
def test_an_address_that_is_not_plainly_a_web_page_is_no_link(url: str | None) -> None:
    assert harmless_link(url) is None


def test_a_web_page_stays_as_it_is() -> None:
    assert harmless_link("https://airflow.example:8443/dags?x=1&y=2#z") == "https://airflow.example:8443/dags?x=1&y=2#z"
