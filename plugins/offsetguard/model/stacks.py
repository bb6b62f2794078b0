"""What the threads of one client did at one moment, equal stacks together."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import TypeAdapter, ValidationError


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """Threads with one stack: where they are in the application's code, and what that has called."""

    count: int
    state: str  # java.lang.Thread.State, e.g. BLOCKED, TIMED_WAITING, RUNNABLE
    frames: tuple[
        str, ...
    ]  # innermost first, `com.acme.OrderListener.consumeMessage:42`; "..." where some are left out
    called: str | None = None  # method of the JDK or of RocketMQ that the innermost one called
    waits_for_network: bool = False  # by its innermost method, which Java calls RUNNABLE
    thread: str | None = None  # name of a service thread of the client; None: consume threads


@dataclass(frozen=True, slots=True)
class ClientStacks:
    """The consume threads of a client, most threads first; and its service threads that are in the application's code.

    Without stacks and without `cannot_tell` only the moment is known: what was seen then is over.
    """

    client_id: str
    taken_at: datetime
    thread_count: int = 0  # consume threads
    idle_count: int = 0  # of these, those that wait for messages
    stacks: tuple[ThreadStack, ...] = ()
    cannot_tell: str | None = None  # key of a sentence of the catalogue: why nobody knows
    asked: bool = True  # False: nobody asked this client for its stacks

    @property
    def other_count(self) -> int:
        """Consume threads whose stacks are not among those that are kept."""
        kept = sum(one.count for one in self.stacks if one.thread is None)
        return max(0, self.thread_count - self.idle_count - kept)

    @property
    def is_known(self) -> bool:
        """Whether there is something to be said."""
        return self.cannot_tell is not None or self.thread_count > 0 or bool(self.stacks)


_STACKS: TypeAdapter[ClientStacks] = TypeAdapter(ClientStacks)


def as_text(stacks: ClientStacks) -> str:
    """Return it as JSON, as it is kept in a column."""
    return _STACKS.dump_json(stacks, exclude_defaults=True).decode()


def of_text(text: str | None) -> ClientStacks | None:
    """Return what a column keeps; None for what another release wrote and this one cannot read."""
    try:
        return None if text is None else _STACKS.validate_json(text)
    except ValidationError:
        return None
