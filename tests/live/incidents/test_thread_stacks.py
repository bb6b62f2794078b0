"""What the threads of real clients did while they hung, beside what is found: in a sleep, a lock, a socket, a deadlock.

A Java client of each line says it; the text has no owner of a monitor, so a deadlock that Java itself names is told as
what it shows: threads that are blocked, and where.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from offsetguard.judge.rule import Finding
from offsetguard.model.fact_records import ClientStacks
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import RunningConsumers, produce, running_consumer
from offsetguard_peers.rocketmq.cluster import VERSIONS, RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

THREADS = 4
HANG = "hang"
WITHIN_S = 600.0
CALLED = {  # by what the listener does: state of most threads, what they called, where
    "sleep": ("TIMED_WAITING", "java.lang.Thread.sleep", "Consumers$Hang.sleep"),
    "lock": ("WAITING", "java.util.concurrent.locks.ReentrantLock.lock", "Consumers$Hang.lock"),
    "socket": ("RUNNABLE", "java.net.Socket$SocketInputStream.read", "Consumers$Hang.read"),
    "deadlock": ("BLOCKED", None, "Consumers$Hang.finish"),
}


@pytest.fixture(params=VERSIONS)
def cluster(request: pytest.FixtureRequest) -> Iterator[RocketMQCluster]:
    """One master."""
    with RocketMQCluster(request.param) as running:
        yield running


def test_what_a_client_hangs_in_stands_beside_what_is_found(cluster: RocketMQCluster) -> None:
    admin, look = Admin(cluster), LiveRounds(cluster)
    with ExitStack() as running:
        clients = {how: running.enter_context(_hanging(cluster, admin, how)) for how in CALLED}
        wait_until(lambda: clients["deadlock"].events("deadlock"), "Java to name the deadlock", timeout_s=WITHIN_S)

        def found() -> dict[str, Finding] | None:
            findings = look.judge_now().judgement.findings  # within the limits of five minutes they only inform
            shown = {one.consumer_group: one for one in findings if one.stacks is not None}
            return {how: shown[_group(how)] for how in CALLED} if set(map(_group, CALLED)) <= shown.keys() else None

        findings = wait_until(found, "a finding with stacks about each group", timeout_s=WITHIN_S, every_s=10.0)
    for how, finding in findings.items():
        assert finding.stacks is not None
        _check(how, finding.stacks, clients[how].client_ids[0])


def _group(how: str) -> str:
    return f"hangs-in-{how}"


@contextmanager
def _hanging(cluster: RocketMQCluster, admin: Admin, how: str) -> Iterator[RunningConsumers]:
    """Run a client that has committed offsets, and hangs with all of its threads."""
    group = _group(how)
    admin.create_topic(group, queues=THREADS)
    admin.create_group(group)
    with running_consumer(cluster, group, group, threads=THREADS, hang_keys=(HANG,), hang_in=how) as consumers:
        produce(cluster, group, 4 * THREADS)
        consumers.wait_until_consumed(4 * THREADS)
        produce(cluster, group, 4 * THREADS, key=HANG)
        yield consumers


def _check(how: str, said: ClientStacks, client_id: str) -> None:
    state, called, method = CALLED[how]
    assert (said.client_id, said.cannot_tell, said.thread_count, said.idle_count) == (client_id, None, THREADS, 0)
    most = next(one for one in said.stacks if one.frames[0].startswith(f"{method}:"))
    assert (most.state, most.called, most.waits_for_network) == (state, called, how == "socket")
    assert most.frames[-1].startswith("Consumers$Pushed.lambda"), "the listener is the outermost one"
    expected = {"sleep": THREADS, "socket": THREADS, "lock": THREADS - 1, "deadlock": 2}
    assert most.count == expected[how]
    assert said.other_count == 0, "every thread is accounted for"
