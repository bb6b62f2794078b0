"""The one file of this folder that Airflow loads as a plugin: our pages, their entry in the menu, and a listener."""

from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from offsetguard.model.views import FLEET_PATH, URL_PREFIX
from offsetguard_airflow import scheduler_listener


class OffsetGuardPlugin(AirflowPlugin):
    """Pages are mounted by the API server, the listener works in the scheduler; nobody else pays for either."""

    name = "offsetguard"
    listeners: ClassVar = [scheduler_listener]
    external_views = [  # Airflow removes broken entries from this very list
        {
            "name": "Fleet",
            "href": f"{URL_PREFIX.removeprefix('/')}{FLEET_PATH}/",
            "destination": "nav",
            "nav_top_level": True,  # all other pages are one click from there
            "url_route": "offsetguard-fleet",
        }
    ] + [
        {
            "name": "OffsetGuard",
            "href": f"{URL_PREFIX.removeprefix('/')}{FLEET_PATH}/of-run?{query}",
            "destination": destination,
            "url_route": f"offsetguard-of-{destination.replace('_', '-')}",
        }
        for destination, query in {
            "dag": "dag_id={DAG_ID}",
            "dag_run": "dag_id={DAG_ID}&run_id={RUN_ID}",
            "task_instance": "dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}",
        }.items()
    ]

    @property
    def fastapi_apps(self) -> list[Mapping[str, Any]]:
        """Built only when the API server asks for it."""
        from offsetguard_airflow.web.app import create_app

        return [{"name": "OffsetGuard", "app": create_app(), "url_prefix": URL_PREFIX}]
