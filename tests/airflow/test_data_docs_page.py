"""Data Docs are for those who are logged in to Airflow, and nothing else is given out: on a real API server."""

import http.client

import httpx
import pytest

from offsetguard.store.database import open_database
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.pictures.chromium import log_in, open_page

pytestmark = pytest.mark.usefixtures("database")
SECRET = "nobody may see this"
INDEX = "/offsetguard/data-docs/demo/index.html"


@pytest.fixture(scope="module")
def database(airflow: AirflowStandalone) -> None:
    """Make the database that the list reads."""
    open_database(airflow.environment["OFFSETGUARD_DATABASE_URL"]).dispose()


@pytest.mark.parametrize("path", ["/offsetguard/data-docs/", INDEX, "/offsetguard/data-docs/no-such-file.html"])
@pytest.mark.parametrize(("headers", "status"), [({}, 401), ({"Authorization": "Bearer made.up.token"}, 403)])
def test_programs_without_a_token_or_with_a_wrong_one_are_refused(
    airflow: AirflowStandalone, path: str, headers: dict[str, str], status: int
) -> None:
    answer = httpx.get(airflow.base_url + path, headers=headers, timeout=60)
    assert (answer.status_code, "Data Docs" in answer.text) == (status, False)


@pytest.mark.browser
def test_a_browser_is_sent_to_the_login_and_comes_back_and_the_menu_leads_there(airflow: AirflowStandalone) -> None:
    with open_page() as page:
        page.goto(airflow.base_url + INDEX)
        assert "/auth/login" in page.url
        assert "Data Docs of demo" not in page.content()
        log_in(page, airflow.username, airflow.password)
        page.wait_for_url(f"**{INDEX}")
        assert page.locator("h1").inner_text() == "Data Docs of demo"
        page.goto(airflow.base_url)
        page.get_by_role("link", name="Fleet").click()
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name="Data Docs").click()
        frame.locator("main").get_by_role("link", name="demo").click()
        frame.locator("h1", has_text="Data Docs of demo").wait_for()


@pytest.mark.parametrize("path", ["demo/index.html", "demo", ""])
def test_files_come_with_their_type_and_may_load_nothing_from_elsewhere(airflow: AirflowStandalone, path: str) -> None:
    answer = httpx.get(f"{airflow.base_url}/offsetguard/data-docs/{path}", headers=_login(airflow), timeout=60)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.html",
        "demo/../../secret.html",
        "%2e%2e/secret.html",
        "..%2fsecret.html",
        "demo/%2e%2e/%2e%2e/secret.html",
        "%2e%2e%2fsecret.html",
        "..%5csecret.html",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "link.html",
        "demo/notes.exe",
        "secret.html%00.html",
        pytest.param(f"demo/{'n' * 300}.html", id="a name that is too long"),
        pytest.param(f"{'n/' * 3000}index.html", id="a path that is too long"),
    ],
)
def test_nothing_outside_of_the_data_docs_can_be_named(airflow: AirflowStandalone, path: str) -> None:
    """Sent as it stands: HTTP libraries would tidy the path up before it leaves."""
    connection = http.client.HTTPConnection("127.0.0.1", airflow.port, timeout=60)
    connection.request("GET", f"/offsetguard/data-docs/{path}", headers=_login(airflow))
    answer = connection.getresponse()
    body = answer.read().decode(errors="replace")
    connection.close()
    assert answer.status == 404
    assert SECRET not in body
    assert "root:" not in body


def _login(airflow: AirflowStandalone) -> dict[str, str]:
    return {"Authorization": f"Bearer {airflow.api.token}"}
