"""A consumer group rebalances every few minutes, because one client of it goes and comes back again and again.

Means: that client is restarted in a loop (it crashes, or fails its liveness probe), or its heartbeats come too late
(long GC pauses, a host without CPU): a broker forgets a client after 120 s. Each time all queues are dealt out anew:
they stand still for up to 20 s, and messages in process come again.
Evidence: while other clients of the group stayed, a client of one host (its id before the @) was gone from the masters'
lists in at least five rounds over at least 25 minutes, and lately. So it is named after 25 to 30 minutes. How long
queues stood meanwhile is what the windows of queues that are looked at saw: the longest time without a commit while
messages waited, in the last half hour to hour.
Not judged: a deployment, in which each client goes once; a group of which nobody is left meanwhile (consumer_offline
knows batches); rounds in which a master was away, or had just been started; broadcasting groups, which deal out
nothing. What comes back between two rounds under the same id is not seen.
Do next: see why that client is restarted, or stands still.
Source: ConsumerManager#scanNotActiveChannel, RebalanceImpl (4.9.7, 5.3.3, 5.5.0).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from offsetguard.collect.departures import host_of
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import each_group, queues_by_group
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Config, Explains, Finding, Rule, Scope, Sentence, Severity, Texts

_LEAST_TIMES, _LEAST_SPAN, _LATELY = 5, timedelta(minutes=25), timedelta(minutes=10)
_AGAIN = (
    "Consumer group {consumer_group} rebalances again and again: {departure_count} time{departure_count:plural} in "
    "{lasted_ms:duration} a client was gone and others were there, {host_count} time{host_count:plural} one of {host}, "
    "last {client_id} at {last_at:moment}"
)
_AGAIN_ZH = (
    "消费组 {consumer_group} 反复重平衡：{lasted_ms:duration} 内有 {departure_count} 次有客户端离开而其他客户端在线，其"
    "中 {host_count} 次来自 {host}，最近一次是 {client_id}（{last_at:moment}）"
)
_COSTS = (
    " Each time all queues are dealt out anew, and messages in process come again; who went, by host: {left}. Queues "
    "without a holder stand still for up to 20 s, those of a client that hangs until it is forgotten after 120 s; "
    "{stood}."
)
_COSTS_ZH = (
    "每次都会重新分配所有队列，处理中的消息会重复消费；离开的客户端（按主机）：{left}。没有持有者的队列最多停滞 20 秒，"
    "客户端卡住时要到 120 秒后被移除为止；{stood}。"
)

RULE = Rule(
    id="rebalances_again",
    severity=Severity.WARNING,
    place=155,
    needs=("groups", "queues"),
    means="A consumer group rebalances every few minutes: one client goes and comes back again and again.",
    texts={
        "default": Texts(
            summary="{consumer_group} rebalances again and again: {host} left it {host_count} time{host_count:plural} "
            "in {lasted_ms:duration}",
            summary_zh="{consumer_group} 反复重平衡：{host} 在 {lasted_ms:duration} 内离开了 {host_count} 次",
            cause=_AGAIN + ", each time as another process: it is started anew again and again." + _COSTS,
            cause_zh=_AGAIN_ZH + "，每次都是新的进程：它一再重启。" + _COSTS_ZH,
            do_next="See why the client on {host} ends: its exit code, its memory limit, its liveness probe, and the "
            "last lines of its log. Who is there now:",
            do_next_zh="请查明 {host} 上的客户端为何退出：退出码、内存限制、存活探针，以及日志的最后几行。当前成员：",
            commands=(lookups.MEMBERS,),
        ),
        "same_process": Texts(
            cause=_AGAIN + ", and the same client came back: its heartbeats come too late (long GC pauses, a host "
            "without CPU, a lossy network)." + _COSTS,
            cause_zh=_AGAIN_ZH
            + "，随后同一客户端又回来：其心跳来得太晚（GC 停顿过长、主机 CPU 不足、网络丢包）。"
            + _COSTS_ZH,
            do_next="See the GC log and the CPU of {host}, and whether its heartbeats are lost: a broker forgets a "
            "client after 120 s. Who is there now:",
            do_next_zh="请查看 {host} 的 GC 日志和 CPU，以及心跳是否丢失：Broker 在 120 秒后会移除客户端。当前成员：",
            commands=(lookups.MEMBERS,),
        ),
    },
    title="a group rebalances again and again",
    title_zh="消费组反复重平衡",
    table=("host", "host_count", "departure_count", "lasted_ms", "last_at", "online_client_count"),
    peak="host_count",
    recovered="its clients have stayed for ten minutes",
    recovered_zh="其客户端已稳定十分钟",
    explains=(Explains(Scope.GROUP, ("rebalance_noise",)),),
)


class _Departure(NamedTuple):
    """A client was gone in the round that ended `at`; `siblings`: clients of its host that were listed before."""

    at: datetime
    siblings: int
    client_id: str


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group, about the host of which clients left it most often."""
    queues: defaultdict[str, list[QueueFacts]] = defaultdict(list)
    for (consumer_group, _), of_topic in queues_by_group(facts).items():
        queues[consumer_group] += of_topic
    for group in each_group(facts):
        if not group.departures or group.message_model == "BROADCASTING":
            continue
        left = [_departure(entry) for entry in group.departures]
        by_host: defaultdict[str, list[_Departure]] = defaultdict(list)
        for one in left:
            by_host[host_of(one.client_id)].append(one)
        host, worst = max(by_host.items(), key=lambda one: (len(one[1]), one[0]))
        if not _comes_back_again(worst, facts.now):
            continue
        yield RULE.finding(
            facts,
            about=(group.consumer_group, None),
            variant="default" if 2 * len({one.client_id for one in worst}) > len(worst) else "same_process",
            figures={
                "host": host,
                "host_count": len(worst),
                "departure_count": len({one.at for one in left}),
                "client_id": worst[-1].client_id,
                "lasted_ms": (worst[-1].at - worst[0].at) // timedelta(milliseconds=1),
                "last_at": worst[-1].at,
                "left": _counted(by_host),
                "stood": _longest_pause(queues.get(group.consumer_group, ())),
                "online_client_count": group.online_client_count,
            },
        )


def _counted(by_host: Mapping[str, Sequence[_Departure]]) -> str:
    """Return the hosts with how often clients of each went, most often first."""
    counts = sorted(((len(left), host) for host, left in by_host.items()), key=lambda one: (-one[0], one[1]))
    return names([f"{host} ({count})" for count, host in counts])


def _longest_pause(queues: Iterable[QueueFacts]) -> Sentence:
    """Return how long one of these queues had no commit at most while messages waited, of the last half hour or so."""
    windows = [queue.window for queue in queues]
    pauses = [one for window in windows for one in (window.longest_pause_ms, window.earlier_longest_pause_ms)]
    known = [pause for pause in pauses if pause is not None]
    return Sentence("stood_at_most", span_ms=max(known)) if known else Sentence("stood_not_seen")


def _departure(entry: str) -> _Departure:
    at, siblings, client_id = entry.split(" ", 2)
    return _Departure(datetime.fromtimestamp(int(at), UTC), int(siblings), client_id)


def _comes_back_again(left: Sequence[_Departure], now: datetime) -> bool:
    """Whether clients of a host left often, for long and lately, and not each of them once or twice."""
    moments = {one.at for one in left}
    often = len(moments) >= _LEAST_TIMES and len(left) > 2 * max(one.siblings for one in left)
    return often and max(moments) - min(moments) >= _LEAST_SPAN and now - max(moments) <= _LATELY
