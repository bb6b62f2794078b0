"""Who may see and change what, on every address that the pages have: by Airflow's roles, and by our own permission."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute

from offsetguard.store.database import open_database
from offsetguard_airflow.web import forms
from offsetguard_airflow.web.app import create_app
from offsetguard_airflow.web.rights import DAG_THAT_MAKES_THEM, RESOURCE
from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.airflow.standalone import AirflowStandalone

STANDS_FOR = {"incident_id": "0123", "path": "index.html", "name": "zone.js"}  # what an address has of its page
ADDRESSES = [
    (method, f"/offsetguard{route.path.replace(':path', '').format(**STANDS_FOR)}")
    for route in create_app().routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]
LOOKS, ACTS = {"GET"}, {"GET", "POST"}
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
OURS = {
    "watcher": ["can_read"],
    "on_call": ["can_read", "can_create"],
    "forms_only": ["can_create"],
    "nobody": [],
}


@pytest.fixture(scope="module", autouse=True)
def database(workspace_folder: Path) -> None:
    open_database(f"sqlite:///{workspace_folder / 'offsetguard.db'}").dispose()


def allowed(base_url: str, token: str | None, method: str, address: str) -> bool:
    """Whether it is not the right that is missing; a form without its token is refused later, and by ourselves."""
    headers = {"Sec-Fetch-Site": "same-origin"} | ({"Authorization": f"Bearer {token}"} if token else {})
    answer = httpx.request(method, base_url + address, headers=headers, timeout=60)
    assert answer.status_code < 500, (method, address, answer.text)
    return answer.status_code not in (401, 403) or "the form is" in answer.text


def check(base_url: str, token: str | None, may: set[str]) -> None:
    found = {(method, address): allowed(base_url, token, method, address) for method, address in ADDRESSES}
    assert found == {(method, address): method in may for method, address in ADDRESSES}


def token_of(base_url: str, name: str, password: str) -> str:
    api = AirflowApi(base_url, name, password)
    api.close()
    return api.token


def test_every_address_that_changes_something_is_a_form() -> None:
    assert {method for method, _ in ADDRESSES} == ACTS
    assert len(ADDRESSES) > 10


@pytest.mark.parametrize(
    ("name", "may"), [(None, set()), ("visitor", LOOKS), ("user", ACTS), ("op", ACTS), ("admin", ACTS)]
)
def test_who_sees_the_dag_looks_and_who_may_start_it_acts(
    airflow: AirflowStandalone, name: str | None, may: set[str]
) -> None:
    passwords = json.loads((airflow.folder / "passwords.json").read_text())
    check(airflow.base_url, token_of(airflow.base_url, name, passwords[name]) if name else None, may)


def test_whoever_is_refused_reads_which_right_is_missing(airflow: AirflowStandalone) -> None:
    passwords = json.loads((airflow.folder / "passwords.json").read_text())
    token = token_of(airflow.base_url, "visitor", passwords["visitor"])
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    refused = httpx.post(f"{airflow.base_url}/offsetguard/incidents/0123", headers=headers, timeout=60)
    assert refused.status_code == 403
    assert f"the right to run the DAG {DAG_THAT_MAKES_THEM}, or can_create on {RESOURCE}" in refused.text


def test_a_token_of_another_installation_is_none(airflow: AirflowStandalone) -> None:
    head, body, seal = airflow.api.token.split(".")
    check(airflow.base_url, f"{head}.{body}.{seal[::-1]}", set())


@pytest.mark.parametrize("address", [address for method, address in ADDRESSES if method == "POST"])
def test_no_form_is_taken_with_the_token_of_another(airflow: AirflowStandalone, address: str) -> None:
    headers = {"Authorization": f"Bearer {airflow.api.token}", "Sec-Fetch-Site": "same-origin"}
    for owner in ("visitor", airflow.username):
        token = forms.new_token(airflow.environment["AIRFLOW__API__SECRET_KEY"], owner, now_s=time.time())
        form = {"token": token, "do": "acknowledge"}
        answer = httpx.post(airflow.base_url + address, data=form, headers=headers, timeout=60)
        assert (answer.status_code == 403) is (owner == "visitor"), answer.text


@pytest.fixture(scope="module")
def by_fab(tmp_path_factory: pytest.TempPathFactory, workspace_folder: Path) -> Iterator[AirflowStandalone]:
    """Run an API server with FAB's people and roles: those of OURS have nothing but what stands there."""
    name, password = AirflowStandalone.username, "of a test"
    person = ["--firstname", "A", "--lastname", "B", "--email", "a@example.com"]
    standalone = AirflowStandalone(
        tmp_path_factory.mktemp("fab"),
        password=password,
        components=("api-server",),
        prepared_by=[["users", "create", "--username", name, "--password", password, "--role", "Admin", *person]],
        environment={
            "OFFSETGUARD_HOME": str(workspace_folder),
            "OFFSETGUARD_DATABASE_URL": f"sqlite:///{workspace_folder / 'offsetguard.db'}",
            "AIRFLOW__CORE__AUTH_MANAGER": FAB,
        },
    )
    with standalone as airflow:
        for role, actions in OURS.items():
            given = [{"action": {"name": action}, "resource": {"name": RESOURCE}} for action in actions]
            _post(airflow, "roles", {"name": role, "actions": given})
            _add_person(airflow, role, role)
        _add_person(airflow, "viewer", "Viewer")
        _add_person(airflow, "user", "User")
        yield airflow


def _add_person(airflow: AirflowStandalone, name: str, role: str) -> None:
    names = {"username": name, "email": f"{name}@example.com", "first_name": name, "last_name": name}
    _post(airflow, "users", {**names, "password": airflow.password, "roles": [{"name": role}]})


def _post(airflow: AirflowStandalone, what: str, body: dict[str, object]) -> None:
    headers = {"Authorization": f"Bearer {airflow.api.token}"}
    answer = httpx.post(f"{airflow.base_url}/auth/fab/v1/{what}", json=body, headers=headers, timeout=60)
    assert answer.is_success, answer.text


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "may"),
    [
        *(("watcher", LOOKS), ("on_call", ACTS), ("forms_only", set()), ("nobody", set())),
        *(("viewer", LOOKS), ("user", ACTS), ("admin", ACTS)),
    ],
)
def test_our_own_permission_is_given_without_the_dag(by_fab: AirflowStandalone, name: str, may: set[str]) -> None:
    token = token_of(by_fab.base_url, name, by_fab.password)
    check(by_fab.base_url, token, may)
    dag = f"{by_fab.base_url}/api/v2/dags/{DAG_THAT_MAKES_THEM}"
    seen = httpx.get(dag, headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code
    assert (seen == 403) is (name in OURS), "404: nobody has parsed the DAG here"
