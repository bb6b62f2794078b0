"""Which queue of a topic a key goes to, as RocketMQ's Java producers choose it.

`SelectMessageQueueByHash.select(queues, message, key)` takes `key.hashCode() % queues.size()`, without its sign. Java's
remainder has the sign of the dividend, so a hash of -2^31, of which `Math.abs` is negative itself, is no trouble.
Sources: java.lang.String#hashCode; org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash, whose byte
code is the same in 4.9.7 and 5.x.
"""

from __future__ import annotations

_BITS = 32
_MASK = (1 << _BITS) - 1


def java_hash_code(text: str) -> int:
    """Return `text.hashCode()`, from -2^31 to 2^31 - 1: over UTF-16 code units, of which some characters have two."""
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for place in range(0, len(units), 2):
        total = (31 * total + (units[place] << 8 | units[place + 1])) & _MASK
    return total - (1 << _BITS) if total >> (_BITS - 1) else total


def position_of(hash_code: int, queue_count: int) -> int:
    """Return the position in the producer's list of queues; raises ValueError when there is no queue."""
    if queue_count <= 0:
        raise ValueError("a topic without queues to write to takes no message")
    return abs(hash_code) % queue_count  # the same as without the sign of Java's remainder
