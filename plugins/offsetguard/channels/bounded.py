"""Bounds a call to a receiver as a whole: time-outs of single steps let a peer drip one byte at a time for ever."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 90.0  # shorter than a claim in the outbox lasts: nobody else may try the same message meanwhile
_Answer = TypeVar("_Answer")


class TookTooLong(TimeoutError):
    """A call as a whole took longer than it may."""

    def __init__(self, limit_s: float) -> None:
        """Keep how long it may take."""
        super().__init__(f"not done within {limit_s:g} s")
        self.limit_s = limit_s


def bounded(limit_s: float, call: Callable[[threading.Event], _Answer], name: str) -> _Answer:
    """Return what a call returns, or raise what it raises, or TookTooLong.

    The call goes on in a thread that dies with the process; it is given an event that is set once nobody waits for it
    any more, and must do nothing further then.
    """
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    given_up = threading.Event()

    def run() -> None:
        try:
            done.put((call(given_up), None))
        except BaseException as error:  # noqa: BLE001 it is raised where somebody waits for it
            done.put((None, error))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        answer, error = done.get(timeout=limit_s)
    except queue.Empty:
        given_up.set()
        raise TookTooLong(limit_s) from None
    if error is not None:
        raise error
    return answer  # type: ignore[no-any-return]
