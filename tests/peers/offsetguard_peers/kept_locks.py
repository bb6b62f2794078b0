"""Whether a client that was stopped as it should be kept a lock all the same, as its broker's log says.

A real one takes locks again if it just renews them as it shuts down. And a queue that a rebalance takes away while
messages of it are in hands is unlocked 20 s later (unlockDelay), or never, if the client ends before. What is said of
such a lock is true, whoever staged no trouble.
"""

from __future__ import annotations

import re

from offsetguard_peers.rocketmq import RocketMQCluster

_TAKEN, _GIVEN_BACK = ("I got it", "not been locked yet"), "unlockBatch"  # in the words of 4.x and 5.x
QUEUE = re.compile(r"queueId=(\d+)")


def lock_lines(cluster: RocketMQCluster, *words: str) -> list[str]:
    """Return the lines about locks of the master's log with all of these words."""
    name = "lock.log" if cluster.version.startswith("4.") else "filter.log"
    log = cluster.broker().log_folder / name
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if all(word in line for word in words)]


def kept_locks(cluster: RocketMQCluster, consumer_group: str, topic: str, client_id: str) -> bool:
    """Whether the client ended with the lock of a queue."""
    said = lock_lines(cluster, consumer_group, f"topic={topic},", client_id)
    taken_or_given = [line for line in said if any(words in line for words in (*_TAKEN, _GIVEN_BACK))]
    newest = {QUEUE.findall(line)[-1]: line for line in taken_or_given}
    return any(_GIVEN_BACK not in line for line in newest.values())
