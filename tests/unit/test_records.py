"""Records behave as dataclasses do, though little of one is compiled, and that late."""

from __future__ import annotations

from dataclasses import asdict, field, fields, replace
from typing import Any

import pytest

from offsetguard.model.constraints import Count, read_python
from offsetguard.model.records import FEW, record


@record
class Place:
    """Fields with and without defaults."""

    name: str
    number: int = 7
    tags: list[str] = field(default_factory=list, repr=False)


@record(kw_only=True)
class Section:
    """As a section of the configuration: a field without a default may come last."""

    number: Count = 7
    places: list[Place] = field(default_factory=list)
    name: str

    def __post_init__(self) -> None:
        """Refuse a name."""
        if self.name == "nobody":
            raise ValueError("not this one")


class Corner(Place):
    """Is no record itself."""


@record
class Nothing:
    """Has no fields."""


def test_fields_are_given_by_place_or_by_name_and_have_their_defaults() -> None:
    first, second = Place("a"), Place("b", number=8)
    assert (first.name, first.number, first.tags) == ("a", 7, [])
    assert (second.name, second.number) == ("b", 8)
    first.tags.append("x")
    assert Place("c").tags == [], "each has a list of its own"
    assert Nothing() == Nothing()


@pytest.mark.parametrize(("given", "named"), [((), {}), (("a", 1, [], 2), {}), (("a",), {"other": 1})])
def test_a_wrong_number_or_name_of_fields_is_refused(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    @record
    class Fresh(Place):
        """Has made no record yet."""

    for _ in range(2):  # the first time, it is compiled
        with pytest.raises(TypeError, match="__init__"):
            Fresh(*given, **named)


def test_the_first_records_are_the_same_as_those_after_init_was_compiled() -> None:
    @record
    class Fresh(Section):
        """Has made no record yet."""

        more: int = 1

    made = [
        (Fresh(name="a", number=2), Fresh(name="b", places=[Place("x")]), Fresh(name="c", more=3))
        for _ in range(FEW + 1)
    ]
    assert all(one == made[-1] for one in made)
    assert made[0][0].places is not made[-1][0].places
    with pytest.raises(ValueError, match="not this one"):
        Fresh(name="nobody")


def test_fields_by_name_only_come_in_any_order_and_are_checked_after() -> None:
    assert Section(name="a") == Section(name="a", number=7, places=[])
    with pytest.raises(ValueError, match="not this one"):
        Section(name="nobody")
    with pytest.raises(TypeError):
        Section("a")  # type: ignore[call-arg,misc]


def test_they_compare_hash_and_show_by_their_fields() -> None:
    assert Place("a") == Place("a") != Place("a", 8)
    assert Place("a") != "a"
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Place("a", 8)) == "Place(name='a', number=8)"
    assert repr(Corner("a")) == "Corner(name='a', number=7)"
    assert Corner("a") != Place("a")


def test_tools_for_dataclasses_take_them() -> None:
    assert [one.name for one in fields(Place)] == ["name", "number", "tags"]
    assert replace(Place("a", 8), name="b") == Place("b", 8)
    assert asdict(Section(name="s", places=[Place("a")])) == {
        "number": 7,
        "places": [{"name": "a", "number": 7, "tags": []}],
        "name": "s",
    }


def test_pydantic_takes_them_for_dataclasses() -> None:
    assert read_python(Section, {"name": "s", "places": [{"name": "a"}]}) == Section(name="s", places=[Place("a")])
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        read_python(Section, {"name": "s", "number": -1})
    with pytest.raises(ValueError, match="not this one"):
        read_python(Section, {"name": "nobody"})
