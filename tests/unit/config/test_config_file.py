"""Whatever is wrong in the configuration is said with its line, all at once, and with what was probably meant."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.config import Config
from offsetguard.config.fields import Section
from offsetguard.config.file import load_config
from offsetguard.model.errors import ConfigError
from offsetguard_peers.cases.running import examples, for_each

MISTAKES = yaml.safe_load((Path(__file__).parent / "mistakes.yml").read_text(encoding="utf-8"))
SHIPPED = Path(__file__).parents[3] / "config" / "offsetguard.yml"


def problems(text: str, folder: Path) -> tuple[Path, list[str]]:
    file = folder / "offsetguard.yml"
    file.write_text(text, encoding="utf-8")
    try:
        load_config(file)
    except ConfigError as error:
        return file, str(error).splitlines()
    return file, []


@for_each("case", MISTAKES["cases"], name_of=lambda case: case["why"])
def test_each_mistake_is_told_with_its_line_and_field(case: dict[str, Any], tmp_path: Path) -> None:
    text = case.get("text", MISTAKES["right"])
    for old, new in case.get("instead", {}).items():
        assert old in text, f"the case changes {old!r}, which the file does not have"
        text = text.replace(old, new)
    file, told = problems(text, tmp_path)
    assert told == [line.format(file=file) for line in case["says"]]


def test_a_right_file_is_read_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "offsetguard.yml"
    file.write_text(MISTAKES["right"], encoding="utf-8")
    config = load_config(file)
    assert config.clusters["orders"].name_servers == ["10.1.0.5:9876"]
    assert config.policy("orders", "order-settlement").team == "payments"
    assert config.policy("orders", "billing").team == "operators"


def test_the_shipped_file_holds_and_watches_a_broker_on_this_machine() -> None:
    config = load_config(SHIPPED)
    assert [cluster.name_servers for cluster in config.clusters.values()] == [["127.0.0.1:9876"]]
    assert config.default_team == "operators"


def test_every_field_is_taught_by_the_shipped_file() -> None:
    """A field that the file does not show is one that nobody finds."""
    text = SHIPPED.read_text(encoding="utf-8")
    names = _field_names(Config)
    assert [name for name in names if f"{name}:" not in text] == []


def test_the_examples_in_the_comments_hold_once_uncommented(tmp_path: Path) -> None:
    lines = SHIPPED.read_text(encoding="utf-8").splitlines()
    uncommented = [line.replace("# ", "", 1) if line.startswith(("  # ", "    # ")) else line for line in lines]
    assert problems("\n".join(uncommented), tmp_path)[1] == []


def test_a_missing_file_says_where_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yml: there is no such file; copy config/offsetguard\.yml"):
        load_config(tmp_path / "nowhere.yml")


def test_bytes_that_are_no_text_say_so(tmp_path: Path) -> None:
    file = tmp_path / "offsetguard.yml"
    file.write_bytes(b"clusters: \xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text \\(byte 10\\)"):
        load_config(file)


def test_a_file_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    doublings = [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    told = problems("\n".join(["a0: &a0 [x]", *doublings]), tmp_path)[1]
    assert len(told) == 1
    assert told[0].endswith("not YAML: unfolds to more than 100,000 values")


def test_no_secret_is_repeated_in_what_is_said(tmp_path: Path) -> None:
    text = (
        "clusters:\n  a:\n    name_servers: ['a:1']\n    secret_key: hunter2\n    access-key: hunter2\n"
        "teams:\n  x: {slack: ['https://hooks.slack.com/services/hunter2']}\n"
    )
    told = problems(text, tmp_path)[1]
    assert len([line for line in told if "use an Airflow connection" in line]) == 3
    assert "hunter2" not in "".join(told)


def test_a_team_may_be_called_what_a_secret_is_called(tmp_path: Path) -> None:
    text = MISTAKES["right"].replace("payments:", "token-service:").replace("team: payments", "team: token-service")
    assert problems(text, tmp_path)[1] == []


def test_a_section_left_empty_means_its_defaults(tmp_path: Path) -> None:
    text = MISTAKES["right"].split("groups:")[0] + "groups:\n  # - match: x\ndelivery:\njudgement:\n"
    assert problems(text, tmp_path)[1] == []


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["match", "team", "x"]), below),
    max_leaves=6,
)
sections = st.dictionaries(
    st.sampled_from(["clusters", "teams", "default_team", "groups", "delivery", "judgement", "password", "x"]),
    plain_values | st.dictionaries(st.sampled_from(["a", "mail", "name_servers"]), plain_values, max_size=2),
)


@settings(max_examples=examples(0.4))
@given(sections)
def test_any_yaml_gives_a_configuration_or_problems_with_lines(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    try:
        load_config(file)
    except ConfigError as error:
        for line in str(error).splitlines():
            assert line.startswith(f"{file}:")


def _field_names(model: type[Section]) -> list[str]:
    names: list[str] = []
    for name, field in model.model_fields.items():
        below = [part for part in _types_in(field.annotation) if isinstance(part, type) and issubclass(part, Section)]
        names += [field.alias or name, *(n for part in below for n in _field_names(part))]
    return names


def _types_in(annotation: Any) -> list[Any]:
    return [annotation, *(part for argument in getattr(annotation, "__args__", ()) for part in _types_in(argument))]
