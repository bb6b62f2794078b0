"""How every process of ours behaves: who may read its files, and calls that may never end."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Answer = TypeVar("_Answer")


def write_for_owner_only() -> None:
    """Let this process, and those that it starts, make files and folders that only their owner can read.

    Every process of ours begins with it: they hold names of groups and clients, log lines, receivers of messages.
    """
    os.umask(0o077)


def left_behind(call: Callable[[], _Answer], name: str) -> Future[_Answer]:
    """Begin a call of which nobody knows whether it ever ends: a receiver that hangs, a file system that is away.

    It cannot be stopped, and neither the end of the process nor asyncio (as of `to_thread`) waits for its thread.
    """
    ended: Future[_Answer] = Future()
    ended.set_running_or_notify_cancel()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as error:  # noqa: BLE001 it is raised where somebody waits for it
            ended.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended
