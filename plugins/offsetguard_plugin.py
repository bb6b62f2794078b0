"""The one file of this folder that Airflow loads as a plugin: our pages and their entries in the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from offsetguard.model.views import DATA_DOCS_PATH, INCIDENTS_PATH, URL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping


class OffsetGuardPlugin(AirflowPlugin):
    """Mounted by the API server; the other processes of Airflow load this file, too, and pay for nothing of it."""

    name = "offsetguard"
    external_views = [  # noqa: RUF012 - Airflow removes broken entries from this very list
        {
            "name": "Incidents",
            "href": f"{URL_PREFIX.removeprefix('/')}{INCIDENTS_PATH}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "offsetguard-incidents",
        },
        {
            "name": "Data Docs",
            "href": f"{URL_PREFIX.removeprefix('/')}{DATA_DOCS_PATH}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "offsetguard-data-docs",
        },
    ]

    @property
    def fastapi_apps(self) -> list[Mapping[str, Any]]:
        """Built only when the API server asks for it."""
        from offsetguard_airflow.page.app import create_app

        return [{"name": "OffsetGuard", "app": create_app(), "url_prefix": URL_PREFIX}]
