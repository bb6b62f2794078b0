"""docs/configuration.md says what the model says, and the model says what every field means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from offsetguard.config import Config
from offsetguard.config.reference import configuration_page, meanings
from offsetguard_peers.for_each import for_each

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def sections(model: type[Any]) -> Iterator[type[Any]]:
    yield model
    for annotation in get_type_hints(model).values():
        yield from (below for part in parts(annotation) if is_dataclass(part) for below in sections(part))  # type: ignore[arg-type]


def parts(annotation: Any) -> list[Any]:
    return [annotation, *(part for argument in getattr(annotation, "__args__", ()) for part in parts(argument))]


def test_the_page_is_the_one_that_the_model_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == configuration_page(), (
        "docs/configuration.md is old: python -m offsetguard.config.reference > docs/configuration.md"
    )


@for_each("section", [*sections(Config)], name_of=lambda section: section.__name__)
def test_every_field_of_every_section_stands_on_the_page_with_its_meaning(section: type[Any]) -> None:
    page = configuration_page()
    for name, (kind, meaning) in meanings(section).items():
        assert meaning, f"{section.__name__}.{name} has no comment behind it that says what it means"
        assert f"| `{name.removesuffix('_')}` | {kind} |" in page
