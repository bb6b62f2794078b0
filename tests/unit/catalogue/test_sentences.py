"""A sentence is its English text, and can be said again to another reader, also after it was kept."""

import copy
import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.catalogue import Sentence, catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.store.columns import from_json, to_json

CHINESE = Locale.of("zh", "Asia/Shanghai")
UNTIL = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 bounds
NAMES = st.text(max_size=30)
SENTENCES = st.one_of(
    st.builds(lambda name: Sentence("gave_no_offsets", brokers=name), NAMES),
    st.builds(lambda name: Sentence("muted_by_silence", author=name, comment=name), NAMES),
    st.builds(lambda count: Sentence("queues_not_read", unknown=count, all=16, topic="orders"), st.integers()),
    st.builds(lambda moment: Sentence("muted_by_quiet_hours", until=moment), MOMENTS),
)
FIGURES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    NAMES,
    MOMENTS,
    SENTENCES,
    st.lists(SENTENCES, max_size=3).map(lambda said: Sentence("reasons", shown=tuple(said))),
    SENTENCES.map(lambda because: Sentence("cannot_be_told", because=because)),
)


def test_a_sentence_is_its_english_text_until_somebody_asks_for_another_language() -> None:
    said = Sentence("gave_no_offsets", brokers="broker-a")
    assert said == "broker-a gave no offsets"
    assert json.dumps([said]) == '["broker-a gave no offsets"]'
    assert catalogue(CHINESE).read(said) == "broker-a 没有返回位点"


def test_a_plain_text_stays_as_it_is() -> None:
    """What an earlier release kept has no key."""
    assert catalogue(CHINESE).read("broker-a gave no offsets") == "broker-a gave no offsets"


def test_sentences_inside_of_sentences_are_said_in_the_same_language_and_zone() -> None:
    inner = tuple(Sentence("muted_by_quiet_hours", until=UNTIL) for _ in range(2))
    said = Sentence("reasons_and_more", shown=inner, hidden=3)
    assert said == "quiet hours until 2026-11-21 22:00:00 UTC; quiet hours until 2026-11-21 22:00:00 UTC; and 3 more"
    once = "免打扰时段，至 2026-11-22 06:00:00 UTC+8"
    assert catalogue(CHINESE).read(said) == f"{once}；{once}；另有 3 条"


@pytest.mark.parametrize(("key", "figures"), [("no such key", {}), ("gave_no_offsets", {"broker": "broker-a"})])
def test_a_key_or_figure_that_the_catalogue_does_not_know_is_an_error(key: str, figures: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        Sentence(key, **figures)


@given(SENTENCES)
def test_copies_and_pickles_are_sentences_too(said: Sentence) -> None:
    for other in (copy.copy(said), copy.deepcopy(said), pickle.loads(pickle.dumps(said))):  # noqa: S301 our own
        assert (other, other.key, dict(other.figures)) == (said, said.key, dict(said.figures))


@given(NAMES)
def test_what_a_name_looks_like_is_never_filled_in(name: str) -> None:
    """A group may be called `{lag}`: names are figures, and figures are no templates."""
    assert catalogue(CHINESE).read(Sentence("gave_no_offsets", brokers=f"{{{name}}}")) == f"{{{name}}} 没有返回位点"


@given(st.dictionaries(NAMES, FIGURES, max_size=4))
def test_figures_survive_json(figures: dict[str, Any]) -> None:
    kept = from_json(json.loads(json.dumps(to_json(figures))))
    assert list(kept) == list(figures)
    for name, figure in figures.items():
        assert kept[name] == figure
        assert catalogue(CHINESE).figure(name, kept[name]) == catalogue(CHINESE).figure(name, figure)


def test_a_sentence_that_only_another_release_knows_is_read_as_its_english_text() -> None:
    kept = {"@sentence": "of_tomorrow", "figures": {}, "text": "the moon was in the way"}
    assert from_json(kept) == "the moon was in the way"
