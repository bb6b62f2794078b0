"""Trouble on a test cluster, staged in seconds: backlogs, retention that overtakes a group, offsets beyond the end.

Every function creates the topic and group that it needs.
"""

from contextlib import suppress
from pathlib import Path
from typing import Literal

from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.offset_table import all_consumer_offsets
from offsetguard.sources.rocketmq.requests import GetBrokerRuntimeInfo
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.waiting import wait_until

# Java producers compress bodies from 4096 bytes on, and then no commit-log file fills up.
FILLER_BODY_BYTES = 4000
COMMIT_LOG_FILE_BYTES = 4_194_304
FILLER_PER_FILE = COMMIT_LOG_FILE_BYTES // FILLER_BODY_BYTES


def stage_backlog(cluster: RocketMQCluster, group: str, topic: str, count: int, *, queues: int = 4) -> None:
    """Let a group that had consumed everything fall `count` messages behind, with no client online."""
    admin = Admin(cluster)
    admin.create_topic(topic, queues=queues)
    produce(cluster, topic, 2 * queues)
    commit_at_end(cluster, group, topic)
    produce(cluster, topic, count)


def commit_at_end(cluster: RocketMQCluster, group: str, topic: str) -> None:
    """Commit the max offset of every queue: the group has consumed everything."""
    commit_beyond_end(cluster, group, topic, by=0)


def commit_beyond_end(cluster: RocketMQCluster, group: str, topic: str, *, by: int = 1000) -> None:
    """Commit max offset + `by` on every queue: what a wrong reset or a recreated queue leaves behind.

    One queue after the other: brokers lose entries when several first commits of a group arrive at once.
    """
    admin = Admin(cluster)
    admin.create_group(group)
    for broker, queue_id in admin.queues(topic):
        end = admin.max_offset(topic, queue_id, broker=broker)
        admin.commit(group, topic, queue_id, end + by, broker=broker)


def stage_overtaken_by_retention(cluster: RocketMQCluster, group: str, topic: str, *, queues: int = 4) -> None:
    """Let a group commit early offsets, write on, and delete the messages that it has not read yet."""
    admin = Admin(cluster)
    admin.create_topic(topic, queues=queues)
    produce(cluster, topic, 10 * queues)
    commit_at_end(cluster, group, topic)
    for broker, queue_id in admin.queues(topic):
        wait_until_saved(broker, group, topic, queue_id, admin.max_offset(topic, queue_id, broker=broker))
    move_min_offset_past_end(cluster, topic)


def move_min_offset_past_end(
    cluster: RocketMQCluster, topic: str, *also: str, by: Literal["restart", "retention"] = "restart"
) -> None:
    """Write more messages and delete old ones until every queue's min offset is beyond its present end.

    `also`: other topics whose queues lose what they have now; each is written to a little.

    `restart`: kill each master, delete its old commit-log files, start it again (4 to 10 s; clients reconnect).
    `retention`: the broker's own cleaning with fileReservedTime=0, without interruption (10 to 80 s after its boot:
    the first round comes after 60 s).
    """
    admin = Admin(cluster)
    ends = {
        (broker, queue_id): admin.max_offset(topic, queue_id, broker=broker) for broker, queue_id in admin.queues(topic)
    }
    brokers = list({broker.address: broker for broker, _ in ends}.values())
    produce(cluster, topic, 3 * FILLER_PER_FILE * len(brokers), body_bytes=FILLER_BODY_BYTES)
    for other in also:  # a queue whose messages are all gone keeps its old min offset
        produce(cluster, other, 2 * len(admin.queues(other)))
    for broker in brokers:
        if by == "restart":
            _restart_without_old_files(admin, broker)
        else:
            _expire_old_files(admin, broker)
    for (broker, queue_id), end in ends.items():
        what = f"the min offset of {topic} {broker.name}/{queue_id} to pass {end}"
        wait_until(lambda: admin.min_offset(topic, queue_id, broker=broker) > end, what)  # noqa: B023 called at once
    if by == "retention":
        for broker in brokers:
            admin.configure(broker, fileReservedTime=72)


def wait_until_saved(broker: Broker, group: str, topic: str, queue_id: int, offset: int) -> None:
    """Return once the committed offset is in consumerOffset.json: a killed broker forgets what is only in memory."""
    file = broker.store / "config" / "consumerOffset.json"

    def saved() -> bool:
        with suppress(FileNotFoundError, MalformedBytes):  # being written anew at this moment
            return all_consumer_offsets(file.read_bytes()).offsets.get((topic, group), {}).get(queue_id) == offset
        return False

    wait_until(saved, f"{file} to hold offset {offset} of {group} for {topic}/{queue_id}")


def forbid_to_write(offsets_file: Path) -> None:
    """Let writing of a local offset file fail, also for root: clients write a .tmp (4.x) or .bak (5.x) first."""
    for ending in (".tmp", ".bak"):
        path = offsets_file.with_name(offsets_file.name + ending)
        path.unlink(missing_ok=True)
        path.mkdir()


def _restart_without_old_files(admin: Admin, broker: Broker) -> None:
    written = _commit_log_end(admin, broker)
    broker.kill()
    newest = written // COMMIT_LOG_FILE_BYTES * COMMIT_LOG_FILE_BYTES
    for file in _commit_log_files(broker):
        if int(file.name) < newest - COMMIT_LOG_FILE_BYTES:  # one full file stays besides the one being written
            file.unlink()
    broker.start()


def _expire_old_files(admin: Admin, broker: Broker) -> None:
    admin.configure(broker, fileReservedTime=0)
    admin.delete_expired_commitlog(broker)


def _commit_log_end(admin: Admin, broker: Broker) -> int:
    return int(admin.read(broker.address, GetBrokerRuntimeInfo()).table["commitLogMaxOffset"])


def _commit_log_files(broker: Broker) -> list[Path]:
    return sorted((broker.store / "commitlog").iterdir())
