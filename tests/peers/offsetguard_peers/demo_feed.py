"""What the demo prints while it runs: each warning as it arrives, and until the first one what Airflow is doing."""

from __future__ import annotations

from collections.abc import Callable

from offsetguard_peers.airflow_api import FINISHED
from offsetguard_peers.world import World


class WarningFeed:
    """Polled by the demo; `count` is the number of messages that people have received so far."""

    def __init__(self, world: World, tell: Callable[[str], None]) -> None:
        """Start with nothing told."""
        self._world = world
        self._tell = tell
        self._mail_count = 0
        self._slack_count = 0
        self._task_states: dict[tuple[str, str, int], str | None] = {}

    @property
    def count(self) -> int:
        """Mails and Slack messages."""
        return self._mail_count + self._slack_count

    def poll(self) -> None:
        """Tell what is new since the last call."""
        mails, posted = self._world.smtp.mails, self._world.slack.messages
        for mail in mails[self._mail_count :]:
            self._tell(f"mail to {', '.join(mail.recipients)}: {_one_line(str(mail.message['Subject']))}")
        for message in posted[self._slack_count :]:
            self._tell(f"Slack #{message.channel.name}: {_one_line(message.text)}")
        self._mail_count, self._slack_count = len(mails), len(posted)

    def poll_tasks(self) -> None:
        """Tell which tasks of the newest runs began and ended."""
        api = self._world.api
        for run in api.runs("collect_and_judge")[:2]:
            for task in api.tasks("collect_and_judge", run["dag_run_id"]):
                key = (run["dag_run_id"], task["task_id"], task["map_index"])
                state = task["state"]
                if state != self._task_states.get(key) and state in ("running", *FINISHED):
                    moment = str(run["run_after"])[11:16]
                    self._tell(f"  Airflow, interval {moment}: {task['task_id'].rpartition('.')[2]} {state}")
                self._task_states[key] = state


def _one_line(text: str) -> str:
    return " ".join(text.split())[:160]
