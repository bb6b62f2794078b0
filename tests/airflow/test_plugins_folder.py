"""Airflow executes whatever it finds below plugins/; that must be one file."""

from pathlib import Path

import pytest
from airflow import plugins_manager
from airflow._shared.module_loading import find_path_from_directory

PLUGINS_FOLDER = Path(__file__).parents[2] / "plugins"


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_airflow_sees_one_python_file(syntax: str) -> None:
    """Whichever syntax of .airflowignore an installation has chosen."""
    found = find_path_from_directory(PLUGINS_FOLDER, ".airflowignore", syntax)
    assert [Path(file).name for file in found if file.endswith(".py")] == ["offsetguard_plugin.py"]


def test_the_plugin_loads_without_an_error_and_brings_one_page() -> None:
    plugins_manager.ensure_plugins_loaded()
    plugins, import_errors = plugins_manager._get_plugins()
    assert not import_errors
    assert [plugin.name for plugin in plugins if str(plugin.source).startswith("$PLUGINS_FOLDER")] == ["offsetguard"]
    apps, _ = plugins_manager.get_fastapi_plugins()
    assert [app["url_prefix"] for app in apps] == ["/offsetguard"]
