"""How fast groups read over every replica, where they read, and which share of a topic matches their filter.

Only the replica that serves a pull counts it, and nobody adds the counts up (incident I1): a group that reads from the
slave has rate 0 on its master, so its rate is the sum. A replica whose rate was not seen is not 0: it is counted.
The same as Spark columns: `offsetguard_spark/facts/rates.py`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from offsetguard.known_figures import any_of, sum_of_known
from offsetguard.records import record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    Row = Mapping[str, Any]

READ = "GROUP_GET_NUMS"
WRITTEN = "TOPIC_PUT_NUMS"
SENT_BACK = "SNDBCK_PUT_NUMS"
POP = "pop"  # of `consumption`
LEAST_COMMITTED_TPS = 0.5  # 30 messages in the minute that the brokers' rates cover: fewer say nothing of a share


@record
class BrokerRates:
    """What the replicas of one broker name say of one group and topic; None = not seen."""

    broker_name: str = ""
    master_tps: float | None = None
    slave_tps: float | None = None  # sum of the slaves that were seen
    unseen_slave_count: int = 0
    slave_since: datetime | None = None  # first round in a row with a slave's rate above 0

    @property
    def reads_moved(self) -> bool | None:
        """Whether the slaves hand out more than the master; None = a replica that could tell was not seen.

        Rates cover the last minute: half a minute after reads have moved the slave's is the greater one, and only after
        65 s the master's is 0.
        """
        if self.master_tps is None:
            return None
        if self.slave_tps is not None and self.slave_tps > self.master_tps:
            return True
        return None if self.unseen_slave_count else False

    @property
    def unseen_count(self) -> int:
        """Replicas, the master among them, whose rate was not seen."""
        return (self.master_tps is None) + self.unseen_slave_count


@record
class GroupRates:
    """The columns of `group_facts` of the same names."""

    get_tps: float | None
    master_get_tps: float | None
    slave_get_tps: float | None
    unseen_rate_count: int | None  # None: no replica was asked
    reads_moved_to_slave: bool | None
    slave_read_broker_names: tuple[str, ...] | None
    slave_read_since: datetime | None
    send_back_tps: float | None


def group_rates(
    stats: Iterable[Row], slave_counts: Mapping[str, int], places: Mapping[tuple[str, str], Collection[str]]
) -> dict[tuple[str, str], GroupRates]:
    """Return the rates by (consumer group, topic).

    `stats`: rows of `broker_stats`. `slave_counts`: listed slaves by broker name. `places`: by (group, topic), the
    brokers that have queues of it; what other brokers count is left out.
    """
    read: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    sent_back: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in stats:
        if row["stats_name"] == READ:
            read[row["consumer_group"], row["topic"], row["broker_name"]].append(row)
        elif row["stats_name"] == SENT_BACK and row["broker_name"] in places.get(
            (row["consumer_group"], row["topic"]), ()
        ):
            sent_back[row["consumer_group"], row["topic"]].append(row["tps"])
    return {
        pair: _merged(
            [_broker_rates(name, read.get((*pair, name), ()), slave_counts.get(name, 0)) for name in broker_names],
            sent_back.get(pair, ()),
        )
        for pair, broker_names in places.items()
    }


def _broker_rates(broker_name: str, rows: Collection[Row], slave_count: int) -> BrokerRates:
    slaves = [row for row in rows if row["broker_id"] != 0]
    return BrokerRates(
        broker_name,
        master_tps=next((row["tps"] for row in rows if row["broker_id"] == 0), None),
        slave_tps=sum(row["tps"] for row in slaves) if slaves else None,
        unseen_slave_count=max(0, slave_count - len(slaves)),
        slave_since=min((since for row in slaves if (since := row.get("counting_since"))), default=None),
    )


def _merged(brokers: Collection[BrokerRates], sent_back: Collection[float]) -> GroupRates:
    masters = sum_of_known(one.master_tps for one in brokers)
    slaves = sum_of_known(one.slave_tps for one in brokers)
    get_tps = sum_of_known((masters, slaves))
    moved = [one for one in brokers if one.reads_moved]
    return GroupRates(
        get_tps=get_tps,
        master_get_tps=masters,
        slave_get_tps=slaves,
        unseen_rate_count=None if get_tps is None else sum(one.unseen_count for one in brokers),
        reads_moved_to_slave=any_of(one.reads_moved for one in brokers),
        slave_read_broker_names=tuple(sorted(one.broker_name for one in moved)) or None,
        slave_read_since=min((one.slave_since for one in moved if one.slave_since), default=None),
        send_back_tps=sum_of_known(sent_back),
    )


def hit_ratio(
    *,
    filtered: bool | None,
    consumption: str | None,
    get_tps: float | None,
    unseen_rate_count: int | None,
    consume_tps: float | None,
) -> float | None:
    """Return the share of messages that match a group's filter, 0..1; None = not filtered, or not known.

    Brokers count what they hand out, filtered; the committed offset passes everything. So their quotient is the share,
    as far as both look at the same minute. What was produced cannot stand in for what was committed: a group that
    catches up passes more. A POP group's rate counts repeated hand-outs as well.
    """
    if not filtered or consumption == POP or unseen_rate_count != 0 or get_tps is None:
        return None
    if consume_tps is None or consume_tps < LEAST_COMMITTED_TPS:
        return None
    return min(1.0, get_tps / consume_tps)
