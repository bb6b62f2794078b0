"""What tests and the demo ask a running Airflow: its public REST API, version 2."""

import time
from contextlib import suppress
from typing import Any

import httpx

from offsetguard_peers.waiting import wait_until

FINISHED = ("success", "failed")
ATTEMPTS = 4


class AirflowApi:
    """A logged-in client; paths are relative to /api/v2."""

    def __init__(self, base_url: str, username: str, password: str) -> None:
        """Log in with the API server's own token endpoint. Raises httpx.HTTPStatusError when it refuses."""
        self._client = httpx.Client(base_url=base_url, timeout=120)
        login = self._client.post("/auth/token", json={"username": username, "password": password})
        login.raise_for_status()
        self.token = str(login.json()["access_token"])
        self._client.headers["Authorization"] = f"Bearer {self.token}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **query: Any) -> Any:
        """GET a resource as JSON; asks again when the server has lost its way, as it may on a busy machine."""
        for _ in range(ATTEMPTS - 1):
            with suppress(httpx.TransportError):
                answer = self._client.get(f"/api/v2{path}", params=query)
                if not answer.is_server_error:
                    return self._checked(answer)
            time.sleep(1)
        return self._checked(self._client.get(f"/api/v2{path}", params=query))

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run a DAG."""
        self._checked(self._client.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": False}))

    def trigger(self, dag_id: str, **params: Any) -> str:
        """Start a run with the values of its form; returns the run id."""
        body = {"logical_date": None, "conf": params}
        return str(self._checked(self._client.post(f"/api/v2/dags/{dag_id}/dagRuns", json=body))["dag_run_id"])

    def clear(self, dag_id: str, run_id: str) -> None:
        """Have all tasks of a run done again."""
        body = {"dry_run": False, "only_failed": False}
        self._checked(self._client.post(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/clear", json=body))

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the newest runs of a DAG, newest first."""
        answer = self.get(f"/dags/{dag_id}/dagRuns", order_by="-run_after", limit=50)
        return list(answer["dag_runs"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return queued, running, success or failed."""
        return str(self.get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run, mapped ones one by one."""
        return list(self.get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", limit=200)["task_instances"])

    def log(self, dag_id: str, run_id: str, task: dict[str, Any]) -> str:
        """Return the log of a task instance's last try, one event a line, an exception's text behind it."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task['task_id']}/logs/{max(task['try_number'], 1)}"
        content = self.get(path, map_index=task["map_index"], full_content=True)["content"]
        return "\n".join(_log_line(line) for line in content)

    def wait_for_run(self, dag_id: str, run_id: str, *, timeout_s: float) -> str:
        """Wait until a run has finished; returns success or failed, raises TimeoutError with the tasks' states."""
        wait_until(
            lambda: self.run_state(dag_id, run_id) in FINISHED,
            timeout_s=timeout_s,
            what=lambda: f"{dag_id} {run_id}: {[(t['task_id'], t['state']) for t in self.tasks(dag_id, run_id)]}",
        )
        return self.run_state(dag_id, run_id)

    def wait_for_dags(self, *dag_ids: str, timeout_s: float) -> None:
        """Wait until the DAG processor has read them; raises TimeoutError with Airflow's import errors."""
        wait_until(
            lambda: set(dag_ids) <= {dag["dag_id"] for dag in self.get("/dags")["dags"]},
            timeout_s=timeout_s,
            what=lambda: f"DAGs {', '.join(dag_ids)}; import errors: {self.get('/importErrors')['import_errors']}",
        )

    @staticmethod
    def _checked(answer: httpx.Response) -> Any:
        if answer.is_error:
            raise RuntimeError(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}")
        return answer.json()


def _log_line(line: Any) -> str:
    if not isinstance(line, dict):
        return str(line)
    exceptions = "; ".join(f"{each['exc_type']}: {each['exc_value']}" for each in line.get("error_detail") or ())
    return f"{line.get('event')} {exceptions}".rstrip()
