"""One client of a consumer group stands still while the others go on: nothing is committed on any queue that it holds.

Means: its listener hangs in all its threads, or its process is stopped; its siblings' progress hides that. Its queues
stay with it as long as it sends heartbeats.
Evidence: of a clustering group, all queues of one client in which messages wait have stood still for longer than the
group's rhythm, while more came; another queue of the group moves, or has nothing that waits. Who holds a queue, its
client says; a client that does not answer while its siblings do is meant where nobody says that he holds them.
Not judged: a group that stands still as a whole (accumulation); a client some of whose queues move (a message that is
slow or fails: slow_consumption, poison_message), or that has just taken a queue, which is told as its last consumption;
clients of a group of which none says what it does.
Do next: take a stack of that client; restart it. What it has in process and the broker has deleted is lost by that.
Source: ConsumeMessageConcurrentlyService, ClientManageProcessor (4.9.8, 5.3.3): a heartbeat says nothing of listeners.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import (
    COMMITTED_WITHIN,
    RECENTLY,
    JudgedGroup,
    finished_at,
    is_little,
    is_silent,
    judged_groups,
    longest_ms,
    longest_silence,
    more_came,
)
from offsetguard.judge.evidence.lookups import lag_evidence, master_boots, waiting_in
from offsetguard.judge.rule import Config, Explains, Finding, Rule, Scope, Sentence, Severity, State, Texts
from offsetguard.judge.rules.messages_lost import in_process_of, not_handed_out
from offsetguard.judge.windows.rules import POP

_STILL = (
    "{still_queue_count} queue{still_queue_count:plural} of topic {topic} that it holds, nothing was committed for "
    "{silence}, and {effective_lag:messages} message{effective_lag:plural} wait there; other queues of the group move."
)
_STILL_ZH = (
    "停止消费：它持有的主题 {topic} 的 {still_queue_count} 个队列上，{silence} 内没有提交任何位点，"
    "{effective_lag:messages} 条消息在那里等待；该消费组的其他队列仍在推进。"
)

RULE = Rule(
    id="client_stands_still",
    severity=Severity.WARNING,
    place=210,
    needs=("groups", "queues"),
    means="One client of a consumer group stands still while the others go on.",
    texts={
        "default": Texts(
            summary="{client_id} of {consumer_group} stands still on {topic}: {effective_lag:messages} "
            "message{effective_lag:plural} wait",
            summary_zh="{consumer_group} 的客户端 {client_id} 在 {topic} 上停止消费：{effective_lag:messages} 条消息等"
            "待",
            cause="Client {client_id} of consumer group {consumer_group} stands still: on " + _STILL,
            cause_zh="消费组 {consumer_group} 的客户端 {client_id} " + _STILL_ZH,
            do_next="Restart that client if it hangs: its queues go to the other clients within a "
            "minute{restart_costs}. What its threads do:",
            do_next_zh="如果该客户端已挂起，请重启：其队列会在一分钟内分配给其他客户端{restart_costs}。查看其线程堆栈：",
            commands=(lookups.STACK_OF_CLIENT,),
        ),
        "silent": Texts(
            cause="Client {client_id} of consumer group {consumer_group} does not answer, and stands still: on "
            + _STILL,
            cause_zh="消费组 {consumer_group} 的客户端 {client_id} 没有应答，并且" + _STILL_ZH,
            do_next="See whether its process is stopped, or its host is overloaded. Restart it: its queues go to the "
            "other clients within a minute{restart_costs}.",
            do_next_zh="请检查其进程是否已暂停，或主机是否过载。请重启它：其队列会在一分钟内分配给其他客户端{restart_costs}。",
        ),
    },
    title="one client stands still",
    title_zh="有客户端停止消费",
    table=("client_id", "still_queue_count", "effective_lag", "silence_ms", "online_client_count"),
    peak="effective_lag",
    group_needs=("effective_lag",),
    from_clients=True,
    recovered="the queues of that client move again",
    recovered_zh="该客户端的队列已恢复推进",
    holds_queues=True,
    shows_stacks=True,
    explains=(
        Explains(Scope.QUEUES, ("accumulation", "slow_consumption", "flow_control")),
        # what it has in process and will not finish: one advice about one client
        Explains(Scope.QUEUES, ("messages_lost",), explained_variants=("in_process",)),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic): of several such clients, about the one with the most that waits."""
    boots = master_boots(facts)
    found = [
        (judged, standing)
        for judged in judged_groups(facts, config)
        if judged.group.consumption != POP and (judged.group.online_client_count or 0) >= 2
        if (standing := _standing(judged, facts.now, boots))
    ]
    # who stands still on one topic holds up the whole of another one, as a retry topic's only queue
    among_others = {
        (judged.group.consumer_group, client_id)
        for judged, standing in found
        if _others_go_on(judged, facts.now, boots)
        for client_id in standing
    }
    for judged, all_standing in found:
        group = judged.group
        standing = {one: all_standing[one] for one in all_standing if (group.consumer_group, one) in among_others}
        if not standing:
            continue
        client_id, queues = max(standing.items(), key=lambda one: (waiting_in(one[1]), one[0]))
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            variant="silent" if client_id in (group.silent_client_ids or ()) else "default",
            state=State.STALLED.value,
            figures={
                "client_id": client_id,
                "still_queue_count": len(queues),
                "effective_lag": waiting_in(queues),
                "silence": longest_silence(queues),
                "silence_ms": longest_ms(queues, "silence_ms"),
                "online_client_count": group.online_client_count,
                "restart_costs": _restart_costs(queues),
            },
            queues=lag_evidence(queues),
        )


def _others_go_on(judged: JudgedGroup, now: datetime, boots: Mapping[str, datetime]) -> bool:
    """Whether other queues of the group and topic move.

    Queues of the others in which nothing waits are no suspects: only the group's rate tells that they move.
    """
    still = [_is_still(queue, now, boots) for queue in judged.queues if (queue.offsets.effective_lag or 0) > 0]
    if all(still) and not judged.group.consume_tps:
        return False
    return len(judged.in_state(State.STALLED)) < judged.group.queue_count


def _standing(judged: JudgedGroup, now: datetime, boots: Mapping[str, datetime]) -> Mapping[str, Sequence[QueueFacts]]:
    """Return by client its waiting queues, of clients on which none of these moves or was taken just now."""
    silent = judged.group.silent_client_ids or ()
    unheld_by = silent[0] if len(silent) == 1 else None
    held = defaultdict[str, list["QueueFacts"]](list)
    for queue in judged.queues:
        if (queue.offsets.effective_lag or 0) > 0 and (holder := queue.holder_client_id or unheld_by):
            held[holder].append(queue)
    return {
        client_id: queues
        for client_id, queues in held.items()
        if all(_is_still(queue, now, boots) for queue in queues)
        and any(map(more_came, queues))
        and not is_little(queues)
    }


def _is_still(queue: QueueFacts, now: datetime, boots: Mapping[str, datetime]) -> bool:
    """Whether nothing was committed for long, also where retention has passed the queue meanwhile.

    Not where its holder finished a message lately, nor before it can have committed, once it has taken the queue.
    """
    verdict, finished, taken = queue.verdict, finished_at(queue, boots), queue.last_consume_at
    if verdict is None or (finished is not None and now - finished <= RECENTLY):
        return False
    if taken is not None and now - taken <= COMMITTED_WITHIN:
        return False
    return verdict.state is State.STALLED or (verdict.state is State.LOST and is_silent(queue))


def _restart_costs(queues: Sequence[QueueFacts]) -> str:
    """Say what is lost by a restart: what the client has in process and its broker has deleted; empty: nothing."""
    deleted = sum(in_process_of(one, not_handed_out(one, online=True)) for one in queues if one.offsets.lost)
    return Sentence("restart_costs", deleted_messages=deleted) if deleted else ""
