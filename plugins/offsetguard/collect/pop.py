"""Groups that consume by POP (5.x): which they are, and what can be said of them.

POP is how every gRPC client consumes, and remoting clients whose topic was switched with `mqadmin setConsumeMode`.
Nothing in the settings of a broker marks such a group, and its committed offset means *handed out*, not *consumed*: lag
is 0 while every message hangs in a handler. So a group must be recognised (`recognise`, most certain sign first), and
two other figures take the place of its lag: what is available, and what is in flight, where anybody knows that.
Unknown stays None: nothing here ever calls a group of which the messages in flight are unknown done.
Source: PopMessageProcessor, KeyBuilder, ConsumerLagCalculator and MQVersion, 5.5.0; live 5.5.0 and 5.5.1 brokers.

Since when nothing of a POP group was finished although messages are in flight: folded from round to round.

A POP group's committed offset moves when messages are handed out, and acknowledgements are counted together with mere
renewals. What was finished is left over: everything written, minus what is available and what is in flight.

The three figures are read one after the other. What is handed out between the readings is counted twice, so `finished`
may be too low by as much, never too high: it is taken to have grown only beyond its highest value so far.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from offsetguard.collect.system_names import LITE_PREFIX, RETRY_PREFIX

FIRST_POP_CLIENT_VERSION = 412  # MQVersion V5_0_0_SNAPSHOT: no older client pops
BROKERS_WITHOUT_POP = ("V3_", "V4_")
POP_STATISTICS = ("GROUP_CK_NUMS", "GROUP_ACK_NUMS")  # counted where messages are handed out and acknowledged
_OTHER_PREFIXES = (RETRY_PREFIX, LITE_PREFIX)
_V1_SEPARATOR, _V2_SEPARATOR = "_", "+"  # `+` is allowed in no name of a topic or group


class Consumption(StrEnum):
    """What a committed offset of the group means; the values of the column `consumption`."""

    CLASSIC = "classic"  # consumed
    POP = "pop"  # handed out


class Evidence(StrEnum):
    """What told; the values of the column `consumption_evidence`."""

    POP_TABLE = "pop_table"  # a client's running info lists queues that it pops
    CONSUME_TYPE = "consume_type"  # the broker lists the group as CONSUME_POP
    BROKER_METRICS = "broker_metrics"  # the broker's metrics count the group's retry topic, as of POP groups only
    OLD_BROKERS = "old_brokers"  # 4.x brokers cannot pop
    POP_STATISTICS = "pop_statistics"  # GROUP_CK_NUMS or GROUP_ACK_NUMS of the group exist
    RETRY_TOPIC = "retry_topic"  # offsets of a retry topic as POP names it
    LITE_TOPICS = "lite_topics"  # offsets of lite topics, which only gRPC clients consume
    BROADCASTING = "broadcasting"  # each client keeps its own offsets
    OLD_CLIENTS = "old_clients"  # 4.x clients cannot pop
    RUNNING_INFO = "running_info"  # every client gave its running info, and none pops
    REMEMBERED = "remembered"  # recognised in the round before


@dataclass(frozen=True, slots=True)
class GroupSigns:
    """What one round saw of one group, over all masters; the defaults mean that nothing was seen."""

    pop_table: bool = False  # of any client
    every_client_answered: bool = False  # each connected client gave its running info
    consume_types: frozenset[str] = frozenset()
    message_model: str | None = None
    counted_as_pop: bool = False  # by a broker's metrics page
    pop_statistics: bool | None = None  # None: not asked on every master, and seen on none
    retry_topics: frozenset[str] = frozenset()  # committed ones that POP named
    lite_topics: bool = False
    broker_versions: tuple[str | None, ...] = ()  # of the masters
    client_versions: tuple[int, ...] = ()  # of the connected clients
    remembered: Consumption | None = None


def _old_brokers(signs: GroupSigns) -> bool:
    versions = signs.broker_versions
    return bool(versions) and all(one is not None and one.startswith(BROKERS_WITHOUT_POP) for one in versions)


def _old_clients(signs: GroupSigns) -> bool:
    return bool(signs.client_versions) and max(signs.client_versions) < FIRST_POP_CLIENT_VERSION


# Most certain first. A group that was switched back keeps its retry topics for good and its statistics until the broker
# restarts: it stays POP here, which hides no trouble, while the other mistake would show hanging messages as done.
_SIGNS: tuple[tuple[Evidence, Consumption, Callable[[GroupSigns], bool]], ...] = (
    (Evidence.POP_TABLE, Consumption.POP, lambda signs: signs.pop_table),
    (Evidence.CONSUME_TYPE, Consumption.POP, lambda signs: "CONSUME_POP" in signs.consume_types),
    (Evidence.BROKER_METRICS, Consumption.POP, lambda signs: signs.counted_as_pop),
    (Evidence.OLD_BROKERS, Consumption.CLASSIC, _old_brokers),
    (Evidence.POP_STATISTICS, Consumption.POP, lambda signs: signs.pop_statistics is True),
    (Evidence.RETRY_TOPIC, Consumption.POP, lambda signs: bool(signs.retry_topics)),
    (Evidence.LITE_TOPICS, Consumption.POP, lambda signs: signs.lite_topics),
    (Evidence.BROADCASTING, Consumption.CLASSIC, lambda signs: signs.message_model == "BROADCASTING"),
    (Evidence.OLD_CLIENTS, Consumption.CLASSIC, _old_clients),
    (Evidence.RUNNING_INFO, Consumption.CLASSIC, lambda signs: signs.every_client_answered),
)


def recognise(signs: GroupSigns) -> tuple[Consumption | None, Evidence | None]:
    """Tell how a group consumes, and by what: the most certain sign, else what was recognised before, else unknown."""
    for evidence, consumption, shows in _SIGNS:
        if shows(signs):
            return consumption, evidence
    return signs.remembered, None if signs.remembered is None else Evidence.REMEMBERED


def pop_retry_topics(
    group: str, committed_topics: Iterable[str], topics: Collection[str], groups: Collection[str]
) -> dict[str, str]:
    """Return the retry topics that POP made for a group, each with the topic that it retries.

    `committed_topics` are the topics of the group's keys in 43 (`%RETRY%group_topic@group`): the key names the group,
    so only what follows it in the topic's name is the topic. The v1 form could still be the classic retry topic of
    another group (`%RETRY%` + `group_topic`): where a group of that name exists and a topic of the rest does not, it is
    taken for one.
    """
    found = {}
    classic = f"{RETRY_PREFIX}{group}"
    for retry_topic in committed_topics:
        for separator in (_V2_SEPARATOR, _V1_SEPARATOR) if retry_topic != classic else ():
            prefix = f"{classic}{separator}"
            topic = retry_topic.removeprefix(prefix) if retry_topic.startswith(prefix) else ""
            other_group = retry_topic.removeprefix(RETRY_PREFIX)
            if topic and (topic in topics or other_group not in groups):
                found[retry_topic] = topic
    return found


def retry_topic_names(group: str, topic: str) -> tuple[str, str]:
    """Return the names that POP gives the retry topic of a group and topic: v1 (the default) and v2."""
    return tuple(f"{RETRY_PREFIX}{group}{separator}{topic}" for separator in (_V1_SEPARATOR, _V2_SEPARATOR))  # type: ignore[return-value]


def is_main_topic(topic: str) -> bool:
    """Tell a topic that producers write from retry topics and lite topics."""
    return not topic.startswith(_OTHER_PREFIXES)


def progress(
    before: Mapping[str, Any], finished: int | None, inflight: int | None, at: datetime | None
) -> dict[str, Any]:
    """Return the columns of a round that was read at `at`; one that does not know the figures changes nothing.

    `before`: the group's row of the round before, {} where there is none.
    """
    highest, since = before.get("pop_finished"), before.get("pop_unfinished_since")
    if finished is not None and inflight is not None and at is not None:
        recreated = highest is not None and finished < highest - inflight
        if inflight == 0:
            highest, since = finished, None
        elif highest is None or finished > highest or recreated:
            highest, since = finished, at
        else:
            since = since or at
    return {"pop_finished": highest, "pop_unfinished_since": since}
