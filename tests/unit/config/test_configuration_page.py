"""docs/configuration.md says what the model says, and the model says what every field means."""

from pathlib import Path

from offsetguard.config.fields import Section
from offsetguard.config.reference import configuration_page
from offsetguard.model.meanings import meanings
from offsetguard_peers.cases.running import for_each

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
SECTIONS = [one for one in Section.__subclasses__() if one.__module__.startswith("offsetguard.config.")]


def test_the_page_is_the_one_that_the_model_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == configuration_page(), (
        "docs/configuration.md is old: python -m offsetguard.config.reference > docs/configuration.md"
    )


@for_each("section", [one for one in SECTIONS if one.__name__ != "WindowPolicy"], name_of=lambda one: one.__name__)
def test_every_field_of_every_section_stands_on_the_page_with_its_meaning(section: type[Section]) -> None:
    page = configuration_page()
    for key in section.key_names():
        meaning = meanings(section).get(key)
        assert meaning, f"{section.__name__}.{key} has no comment behind it that says what it means"
        assert f"| `{key}` |" in page
