"""Names of what brokers count (315), and what their keys are made of.

Source: BrokerStatsManager, apache/rocketmq 4.9.8 and 5.5.
"""

from __future__ import annotations

from offsetguard.records import record

_OF_GROUPS = frozenset({"GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS", "GROUP_CK_NUMS", "GROUP_ACK_NUMS"})
_OF_TOPICS = frozenset({"TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"})


@record
class StatsItem:
    """One item of a broker's statistics, by RocketMQ's names; what its key is made of."""

    stats_name: str
    stats_key: str

    @property
    def topic(self) -> str | None:
        """Topic of the key; None = it has none."""
        return self._parts[0]

    @property
    def consumer_group(self) -> str | None:
        """Group of the key; None = it has none."""
        return self._parts[1]

    @property
    def queue_id(self) -> int | None:
        """Queue of the key; None = it has none."""
        return self._parts[2]

    @property
    def _parts(self) -> tuple[str | None, str | None, int | None]:
        if self.stats_name in _OF_TOPICS:
            return self.stats_key, None, None
        if self.stats_name in _OF_GROUPS:
            topic, _, group = self.stats_key.partition("@")
            return topic, group, None
        if self.stats_name == "GROUP_GET_LATENCY":
            queue_id, _, rest = self.stats_key.partition("@")
            topic, _, group = rest.partition("@")
            return topic, group, int(queue_id)
        return None, None, None
