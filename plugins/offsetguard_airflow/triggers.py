"""What the judge waits for, watched by the triggerer: a judge that waits takes no worker's place then.

Airflow's `[operators] default_deferrable` decides whether it does so. Without a triggerer nobody would go on: so where
it is not set, the judge waits in its own process.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.triggers.base import BaseTrigger, TriggerEvent

from offsetguard_airflow.task_inputs import FactsToJudge, Opened, interval_at, open_workspace

_LOOKS_APART_S = 1.0
_OTHERS_FOLLOW_WITHIN_S = 5.0  # of the first cluster: what is published together is judged by one process


class FactsTrigger(BaseTrigger):
    """Fires when facts of an interval can be judged: they are published, or will not be, or people would wait."""

    def __init__(
        self,
        *,
        clusters: Sequence[str],
        interval_start: str,
        is_history: bool,
        dag_id: str,
        run_id: str,
        publish_task_id: str,
    ) -> None:
        """`publish_task_id`: of the task of the same run that publishes the interval. The others: see FactsToJudge."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.clusters = list(clusters)
        self.interval_start = interval_start
        self.is_history = is_history
        self.dag_id = dag_id
        self.run_id = run_id
        self.publish_task_id = publish_task_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another process makes it of again."""
        names = ("clusters", "interval_start", "is_history", "dag_id", "run_id", "publish_task_id")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look once a second; an error is for the task to meet, which looks again and says what it is.

        The triggerer lives for weeks: what is opened here is closed here, once for all looks.
        """
        ready, seconds, ours = 0, 0.0, None
        try:
            ours = await asyncio.to_thread(open_workspace, self.log.error)
            while ready < len(self.clusters) and seconds < _OTHERS_FOLLOW_WITHIN_S:
                ready = await asyncio.to_thread(self._ready_count, ours)
                await asyncio.sleep(_LOOKS_APART_S)
                seconds += _LOOKS_APART_S if ready else 0.0
        except Exception as error:  # noqa: BLE001 - whatever it is, people must not wait for ever
            self.log.warning("the judge goes on: %s", error)
        finally:
            if ours is not None:
                ours.engine.dispose()
        yield TriggerEvent({"ready": ready})  # type: ignore[no-untyped-call]

    def _ready_count(self, ours: Opened) -> int:
        interval = interval_at(self.interval_start)
        waiting = [
            FactsToJudge(
                ours,
                cluster,
                interval,
                is_history=self.is_history,
                publication_state=self._publication_state,
                say=self.log.warning,
            )
            for cluster in self.clusters
        ]
        return sum(one.is_ready() for one in waiting)

    def _publication_state(self) -> str | None:
        return state_of(RuntimeTaskInstance, self.dag_id, self.run_id, self.publish_task_id)


def state_of(task_instance: Any, dag_id: str, run_id: str, task_id: str) -> str | None:
    """Return the state of a task; None: it has none yet."""
    states = task_instance.get_task_states(dag_id, task_ids=[task_id], run_ids=[run_id])
    return next(iter(states.get(run_id, {}).values()), None)
