"""The one way in which tests wait for a condition, with a limit that a busy machine keeps; and do things at once."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

PATIENCE_S = 480.0  # nothing needs a tenth of it, but for slaves of 5.x, which learn of topics once in a minute

Answer = TypeVar("Answer")


def wait_until(
    condition: Callable[[], Answer | None],
    what: str | Callable[[], str],
    *,
    timeout_s: float = PATIENCE_S,
    every_s: float = 0.1,
) -> Answer:
    """Ask again until the answer is true, and return it.

    `what`: what is waited for, and if it is made late, what is there instead. Raises TimeoutError that says it, with
    the last answer.
    """
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise TimeoutError(f"waited {timeout_s:.0f} s for {told}; the last answer was {answer!r}")
        time.sleep(every_s)
    return answer


def at_once(count: int, action: Callable[[], Answer]) -> list[Answer]:
    """Do the same in so many threads that begin together; returns what each returns, raises what one raises."""
    start = threading.Barrier(count)

    def act() -> Answer:
        start.wait()
        return action()

    with ThreadPoolExecutor(count) as pool:
        return [each.result() for each in [pool.submit(act) for _ in range(count)]]
