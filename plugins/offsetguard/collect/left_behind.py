"""Work of which nobody knows whether it ever ends: on a file system of a server that may be away, for one.

A thread cannot be stopped there, and neither `asyncio.to_thread` nor the end of the process may wait for it.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def within(seconds: float, work: Callable[[], Result], instead: Callable[[], Result]) -> Result:
    """Return what `work` gives in a thread, or raise what it raises; `instead`, where it takes longer than that."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Callable[[], Result]] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 it is raised where it is waited for
            tell(ended.set_exception, error)
        else:
            tell(ended.set_result, lambda: result)

    def tell(how: Callable[..., None], what: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if ended.done() else how(what))

    threading.Thread(target=run, name="left behind", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return (await ended)()
    return instead()
