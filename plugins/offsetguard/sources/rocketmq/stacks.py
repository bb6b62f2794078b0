"""The text of `jstack` in a client's running info: what all threads of its JVM do, and which of that is worth reading.

Written by `UtilAll.jstack(Thread.getAllStackTraces())` (4.9.7 to 5.5.0): a line for each thread, then one for each
frame, innermost first; every line begins with the thread's name, padded to 40 characters or not at all. A JVM before 9
writes frames without module and loader.

    ConsumeMessageThread_billing_3          TID: 28 STATE: TIMED_WAITING
    ConsumeMessageThread_billing_3          java.base@17.0.15/java.lang.Thread.sleep(Native Method)
    ConsumeMessageThread_billing_3          app//com.acme.OrderListener.consumeMessage(OrderListener.java:42)

It has no locks and no owners of locks: who waits for whom, and so a deadlock, cannot be told from it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from offsetguard.model.fact_records import ClientStacks, ThreadStack

MOST_STACKS = 5
FRAMES_INNERMOST, FRAMES_OUTERMOST = 6, 2  # kept of a stack; the outermost one is the listener
LEFT_OUT = "..."
_MOST_CHARACTERS = 200  # of a frame
_PADDED_TO = 40
_THREAD = re.compile(r"(?P<name>.*)TID: \d+ STATE: (?P<state>[A-Z_]+)")
_FRAME = re.compile(r"(?:[^/()]*/)*?(?P<method>[^/()]+(?:/0x[^/().]+\.[^/()]+)?)\((?P<place>.*)\)")
_LINE = re.compile(r".*:(\d+)")
_CONSUMES = "ConsumeMessageThread_"
_GROUP_CHARACTERS = 100  # of a group's name in those of its threads
_SERVICES = ("PullMessageService", "RebalanceService")  # one of each in a client: it stands still where they do
_JDK = ("java.", "javax.", "jdk.", "sun.", "com.sun.")
_ROCKETMQ = "org.apache.rocketmq."
_GENERATED = "$$Lambda"  # named after an address
_IDLE = "java.util.concurrent.ThreadPoolExecutor.getTask"
_READ_NETWORK = frozenset(
    {
        "java.net.SocketInputStream.socketRead0",
        "java.net.PlainSocketImpl.socketConnect",
        "sun.nio.ch.Net.poll",
        "sun.nio.ch.Net.connect0",
        "sun.nio.ch.SocketDispatcher.read0",
        "sun.nio.ch.EPoll.wait",
        "sun.nio.ch.EPollArrayWrapper.epollWait",
        "sun.nio.ch.KQueue.poll",
    }
)


@dataclass(frozen=True, slots=True)
class _Frame:
    method: str  # with its class
    line: str

    @property
    def text(self) -> str:
        text = f"{self.method}:{self.line}" if self.line else self.method
        return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - len(LEFT_OUT)] + LEFT_OUT

    @property
    def is_of_jdk(self) -> bool:
        return self.method.startswith(_JDK)

    @property
    def is_of_application(self) -> bool:
        return not self.is_of_jdk and not self.method.startswith(_ROCKETMQ)


@dataclass(frozen=True, slots=True)
class _Thread:
    name: str
    state: str
    frames: tuple[_Frame, ...]

    @property
    def is_in_application(self) -> bool:
        return any(one.is_of_application for one in self.frames)

    @property
    def is_idle(self) -> bool:
        return not self.is_in_application and any(one.method == _IDLE for one in self.frames)


def stacks_of(jstack: str, consumer_group: str, client_id: str, taken_at: datetime) -> ClientStacks | None:
    """Return the consume threads of a group, equal stacks together, at most MOST_STACKS; None: no thread is there.

    Where threads are not named after their groups, those of all groups of the JVM.
    """
    threads = list(_threads(jstack))
    if not threads:
        return None
    consuming = [one for one in threads if one.name.startswith(_CONSUMES)]
    own_prefix = f"{_CONSUMES}{consumer_group[:_GROUP_CHARACTERS]}_"
    consuming = [one for one in consuming if one.name.startswith(own_prefix)] or consuming
    services = [one for one in threads if one.name in _SERVICES and one.is_in_application]
    counted = Counter(_stack(one) for one in consuming if not one.is_idle)
    counted.update(_stack(one, service=True) for one in services)
    ordered = sorted(counted.items(), key=lambda one: (one[0].thread is None, -one[1], one[0].state, one[0].frames))
    return ClientStacks(
        client_id,
        taken_at,
        len(consuming),
        sum(one.is_idle for one in consuming),
        tuple(replace(stack, count=count) for stack, count in ordered[:MOST_STACKS]),
    )


def _threads(jstack: str) -> Iterator[_Thread]:
    """Yield what can be read; lines that belong to no thread are left out."""
    name, state, prefix = "", "", ""
    frames: list[_Frame] = []
    for line in jstack.splitlines():
        if head := _THREAD.fullmatch(line):
            if state:
                yield _Thread(name, state, tuple(frames))
            prefix = head["name"]
            name, state, frames = prefix.rstrip() if len(prefix) <= _PADDED_TO else prefix, head["state"], []
        elif state and line.startswith(prefix) and (frame := _frame(line[len(prefix) :])):
            frames.append(frame)
    if state:
        yield _Thread(name, state, tuple(frames))


def _frame(text: str) -> _Frame | None:
    found = _FRAME.fullmatch(text.strip())
    if found is None or _GENERATED in found["method"]:
        return None
    line = _LINE.fullmatch(found["place"])
    return _Frame(found["method"], line[1] if line else "")


def _stack(thread: _Thread, *, service: bool = False) -> ThreadStack:
    """Return the stack of one thread; of one that is not in the application's code, where it is in RocketMQ's."""
    frames = thread.frames
    shown = [place for place, one in enumerate(frames) if one.is_of_application]
    shown = shown or [place for place, one in enumerate(frames) if not one.is_of_jdk] or list(range(len(frames)))
    called = frames[shown[0] - 1].method[:_MOST_CHARACTERS] if shown and shown[0] > 0 else None
    return ThreadStack(
        count=1,
        state=thread.state,
        frames=_shortened([frames[place].text for place in shown]),
        called=called,
        waits_for_network=bool(frames) and frames[0].method in _READ_NETWORK,
        thread=thread.name if service else None,
    )


def _shortened(frames: Sequence[str]) -> tuple[str, ...]:
    if len(frames) <= FRAMES_INNERMOST + FRAMES_OUTERMOST:
        return tuple(frames)
    return (*frames[:FRAMES_INNERMOST], LEFT_OUT, *frames[-FRAMES_OUTERMOST:])
