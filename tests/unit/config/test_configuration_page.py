"""docs/configuration.md says what the model says, and the model says what every field means."""

from offsetguard.config.fields import Section
from offsetguard.model.views import meanings
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.doc_pages.configuration import made

SECTIONS = [one for one in Section.__subclasses__() if one.__module__.startswith("offsetguard.config.")]


@for_each("section", [one for one in SECTIONS if one.__name__ != "WindowPolicy"], name_of=lambda one: one.__name__)
def test_every_field_of_every_section_stands_on_the_page_with_its_meaning(section: type[Section]) -> None:
    page = made()
    for key in section.key_names():
        meaning = meanings(section).get(key)
        assert meaning, f"{section.__name__}.{key} has no comment behind it that says what it means"
        assert f"| `{key}` |" in page
