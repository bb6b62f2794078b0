"""How many messages an ordered reset repeats or skips is counted, though no round sees it, live and from a bundle."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsetguard.judge.rule import Finding
from offsetguard.sources.bundle.layout import read_meta
from offsetguard_peers.processes import COMMAND
from offsetguard_peers.rocketmq.admin import Admin, mqadmin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumer, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds, judged_rounds_of_bundle
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP = "reset-orders", "reset-billing"
BEFORE, AGAIN = 200, 600


@pytest.mark.parametrize("line", ["rocketmq_4", "rocketmq_5"])
def test_messages_that_are_consumed_again_are_counted_to_the_last_one(
    request: pytest.FixtureRequest, line: str
) -> None:
    cluster: RocketMQCluster = request.getfixturevalue(line)
    Admin(cluster).create_topic(TOPIC, queues=4)
    look = LiveRounds(cluster)
    with running_consumer(cluster, GROUP, TOPIC) as billing:
        produce(cluster, TOPIC, BEFORE)
        billing.wait_until_consumed(BEFORE)
        time.sleep(1)  # so that the moment lies between two messages, whatever the clocks' last digits are
        moment_ms = time.time_ns() // 1_000_000
        produce(cluster, TOPIC, AGAIN)
        billing.wait_until_consumed(BEFORE + AGAIN)
        wait_until(lambda: _committed(cluster) == BEFORE + AGAIN, "the commits of what was consumed")
        assert not _told(look)

        mqadmin(cluster, "resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", str(moment_ms))

        billing.wait_until_consumed(BEFORE + 2 * AGAIN)
        wait_until(lambda: _committed(cluster) == BEFORE + AGAIN, "the commits of what was consumed again")
        (reset,) = wait_until(lambda: _told(look), "a finding")
        assert (reset.figures["repeated"], reset.figures["skipped"]) == (AGAIN, 0)
        assert billing.consumed() == BEFORE + 2 * AGAIN


@pytest.mark.parametrize("line", ["rocketmq_4", "rocketmq_5"])
def test_a_bundle_tells_as_much_of_a_reset_of_a_group_that_was_behind(
    request: pytest.FixtureRequest, line: str, tmp_path: Path
) -> None:
    """4.x does not say where it set the queues: what it answers is in the bundle only if it was asked meanwhile."""
    cluster: RocketMQCluster = request.getfixturevalue(line)
    topic, group = "skipped-orders", "skipped-billing"
    Admin(cluster).create_topic(topic, queues=4)
    slow = ConsumerSpec(group, {topic: "*"}, threads=1, handling_ms=400)
    with running_consumers(cluster, [slow], folder=tmp_path / "clients") as billing:
        produce(cluster, topic, AGAIN)
        with _recorded(cluster, tmp_path / "bundle") as rounds:
            billing.wait_until_consumed(150)  # what clients say of their pace is that of a minute
            mqadmin(cluster, "resetOffsetByTime", "-g", group, "-t", topic, "-s", str(time.time_ns() // 1_000_000))
            wait_until(lambda: _committed(cluster, group, topic) == AGAIN, "the group to be at the end")
            rounds.wait_for_more(7)  # a 5.x client goes there when it pulls next
        skipped = AGAIN - billing.consumed()
    last = judged_rounds_of_bundle(tmp_path / "bundle")[-1]
    (reset,) = (one for one in last.judgement.findings if (one.consumer_group, one.rule.id) == (group, "offset_reset"))
    assert reset.variant == "forward"
    assert reset.figures["repeated"] == 0
    # a client of 5.x goes on for up to 15 s, of which so short rounds do not see the end together with the order
    assert reset.figures["skipped"] == pytest.approx(skipped, rel=0.1)


class _Rounds:
    """The rounds of a bundle that is being recorded."""

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle

    def wait_for_more(self, count: int) -> None:
        """Return when so many more have ended."""
        wanted = self._ended() + count
        wait_until(lambda: self._ended() >= wanted, f"{count} more rounds of {self._bundle}")

    def _ended(self) -> int:
        return read_meta(self._bundle).rounds_ended if self._bundle.exists() else 0


@contextmanager
def _recorded(cluster: RocketMQCluster, bundle: Path) -> Iterator[_Rounds]:
    logs = [f"--logs={broker.name}-{broker.broker_id}={broker.log_folder}" for broker in cluster.brokers]
    command = [*COMMAND, "record", "--namesrv", cluster.namesrv, *logs, "--for", "20m", "--every", "3s"]
    with subprocess.Popen([*command, "--out", str(bundle)], stderr=subprocess.DEVNULL) as recording:
        yield _Rounds(bundle)
        recording.send_signal(signal.SIGINT)


def _committed(cluster: RocketMQCluster, group: str = GROUP, topic: str = TOPIC) -> int:
    admin = Admin(cluster)
    return sum(admin.committed(group, topic, number, broker=broker) or 0 for broker, number in admin.queues(topic))


def _told(look: LiveRounds) -> list[Finding]:
    return [
        one
        for one in look.judge_now().judgement.findings
        if (one.consumer_group, one.rule.id) == (GROUP, "offset_reset")
    ]
