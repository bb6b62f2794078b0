"""Sends what is due in the outbox; a message counts as sent only once its receiver has accepted it.

Goal: nothing lost, nothing sent twice, nobody waits for somebody else's broken receiver.
Plan: one lane per receiver, lanes side by side in threads, each kind of channel with threads of its own. While any lane
is busy the outbox is looked at again and again, so that what is written meanwhile does not wait for a slow receiver.
Not here: no row is deleted, no failure is without its reason in the outbox and in the log.
"""

import logging
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import datetime
from importlib import import_module

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.deliver import channels
from offsetguard.deliver.channels.channel import Transport, Unavailable
from offsetguard.deliver.in_doubt import InDoubt
from offsetguard.deliver.lane_service import Clock, Delivery, DeliveryReport, LaneService, Result
from offsetguard.model.notification import DECLARED, Channel
from offsetguard.store import outbox
from offsetguard.store.database import database_time
from offsetguard.store.database_errors import what_failed
from offsetguard.store.outbox import Lane

SWEEP_S = 180.0  # no message is begun later: the task has five minutes
POLL_EVERY_S = 0.5
_PAUSE_S = 0.05


def _opened_by(channel: Channel) -> type[Transport]:
    """Return the class in the file of a channel that has its shape."""
    module = import_module(f"{channels.__name__}.{channel}")
    of_its_shape = (one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Transport))
    return next(one for one in of_its_shape if one.__module__ == module.__name__)


CHANNELS = {channel: _opened_by(channel) for channel in DECLARED}
OpenTransport = Callable[[Lane], Transport | Unavailable]

_log = logging.getLogger(__name__)


def deliver_due(
    engine: Engine,
    open_transport: OpenTransport,
    *,
    now: datetime | None = None,
    claim_ms: int = outbox.CLAIM_MS,
    sweep_s: float = SWEEP_S,
) -> DeliveryReport:
    """Claim and send everything that is due from now on; several deliverers may run at once, on several hosts.

    `open_transport`: opens what leads to a receiver; called in this thread, each time that there is something for it.
    What is due, and which claims have ended, is told by the database's clock, unless a replay says what time it is.
    Never raises for a failure of a receiver or of the database: that is in the report, the log and the outbox.
    """
    try:
        clock = Clock(now or database_time(engine))
        outbox.forget_what_lies_ahead(engine, now=clock.now(), claim_ms=claim_ms)
    except SQLAlchemyError as error:
        return DeliveryReport(troubles=(_trouble(error),))
    service = LaneService(engine, clock, InDoubt(), sweep_s, claim_ms)
    with ExitStack() as stack:
        pools = {
            channel: stack.enter_context(ThreadPoolExecutor(kind.LANES, f"deliver-{channel}"))
            for channel, kind in CHANNELS.items()
        }
        return _Sweep(service, open_transport, pools).run()


class _Sweep:
    """Starts lanes until nothing is due and none is busy."""

    def __init__(
        self, service: LaneService, open_transport: OpenTransport, pools: dict[Channel, ThreadPoolExecutor]
    ) -> None:
        self._service = service
        self._open_transport = open_transport
        self._pools = pools
        self._busy: dict[Future[list[Delivery]], Lane] = {}
        self._deliveries: dict[int, Delivery] = {}
        self._trouble: str | None = None

    def run(self) -> DeliveryReport:
        while True:
            self._start_lanes()
            if not self._busy:
                break
            finished, _ = wait(self._busy, POLL_EVERY_S)
            for lane in finished:
                del self._busy[lane]
                self._collect(lane)
        in_order = sorted(self._deliveries.values(), key=lambda delivery: delivery.outbox_id)
        return DeliveryReport(tuple(in_order), (self._trouble,) if self._trouble else ())

    def _start_lanes(self) -> None:
        service = self._service
        if self._trouble is not None or service.clock.elapsed_s() > service.sweep_s:
            return
        now = service.clock.now()
        try:
            lanes = outbox.due_lanes(service.engine, now=now)
            outbox.say_what_waits_for_whom(service.engine, now=now)
        except SQLAlchemyError as error:
            self._trouble = _trouble(error)  # what could not be claimed stays in the outbox: the next sweep asks again
            return
        for lane in lanes:
            if lane not in self._busy.values():
                # opened here and not in the lane: connections are Airflow's, which may want its own thread
                pool = self._pools.get(lane.channel) or next(iter(self._pools.values()))
                self._busy[pool.submit(service.serve, lane, self._transport(lane))] = lane

    def _transport(self, lane: Lane) -> Transport | Unavailable:
        """Return what leads to a receiver; whatever keeps it from being opened concerns that receiver alone."""
        if lane.channel not in CHANNELS:
            return Unavailable(f"this release knows no channel {lane.channel!r}; it knows {', '.join(CHANNELS)}")
        try:
            return self._open_transport(lane)
        except Exception as error:  # noqa: BLE001 the code of others; its text may have the address
            what = lane.channel.rpartition("_")[2]
            reason = f"{what} {lane.receiver!r} could not be opened: {type(error).__name__}"
            _log.error("%s, at\n%s", reason, "".join(traceback.format_tb(error.__traceback__)))  # lines of code alone
            return Unavailable(reason)

    def _collect(self, lane: Future[list[Delivery]]) -> None:
        try:
            deliveries = lane.result()
        except SQLAlchemyError as error:
            self._trouble = _trouble(error)
            return
        self._deliveries |= {delivery.outbox_id: delivery for delivery in deliveries}
        if any(delivery.result is Result.NOT_LOGGED for delivery in deliveries):
            self._trouble = self._trouble or "the database did not take what was accepted, so nothing more was begun"
        if not deliveries:
            time.sleep(_PAUSE_S)  # another deliverer was faster: its transaction may take a moment


def _trouble(error: SQLAlchemyError) -> str:
    trouble = f"the database did not answer, so messages may wait in the outbox: {what_failed(error)}"
    _log.error("%s", trouble)
    return trouble
