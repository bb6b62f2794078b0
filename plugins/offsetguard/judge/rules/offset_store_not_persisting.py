"""A broadcasting client cannot save its offsets: after each rebalance it asks for the same old one again.

Means: the file below localOffsetStoreDir cannot be written (disk full or broken, rights, a container's lost volume); or
the client is older than 4.9.8, or 5.0 to 5.1, and never writes a corrected offset. It drops the queue on one; the
rebalance 20 s later takes the queue again and reads the old offset.
Evidence: the same request of one client three times or more, at the rebalance period, from OFFSET_MOVED_EVENT (4.x),
broker.log or the client's own log; and the client's log line of the write that failed.
Not judged: requests of clustering groups (offset_reset), and of several clients that each ask once after a restart.
Do next: check the disk on the client's host; give containers a persistent path; upgrade old clients.
Source: incident "broadcasting"; LocalFileOffsetStore, RebalanceImpl (4.9.8, 5.3.3); apache/rocketmq#7740.
"""

from collections import defaultdict
from collections.abc import Iterator

from offsetguard.facts.interval import IntervalFacts, OnlineGroupFacts
from offsetguard.judge.evidence.move_causes import BROADCASTING, CLUSTERING, causes
from offsetguard.judge.evidence.move_figures import move_evidence, move_figures
from offsetguard.judge.evidence.unseen import silent_about_corrections
from offsetguard.judge.rule import CannotTell, Config, Explains, Figure, Finding, Rule, Scope, Sentence, Severity, Texts
from offsetguard.model.rocketmq import FILE_NOT_WRITTEN
from offsetguard.sources.rocketmq.codes import version_name
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LogLineFacts

_LOOPED = (
    "it has asked for the same offset {requested_offset:messages} of topic {topic} on queue {worst_queue} "
    "{move_count} time{move_count:plural} in {span_ms:duration}, every {period_ms:duration}, and was sent to "
    "{corrected_offset:messages} "
    "each time; {worst_lost:messages} message{worst_lost:plural} of this queue are gone for it, and it consumes "
    "nothing from such queues"
)
_LOOPED_ZH = (
    "在 {span_ms:duration} 内 {move_count} 次请求主题 {topic} 队列 {worst_queue} 的同一位点 "
    "{requested_offset:messages}，每 {period_ms:duration} 一次，每次都被纠正到 {corrected_offset:messages}；该队列有 "
    "{worst_lost:messages} 条消息对它而言已丢失，且它在这样的队列上不会消费任何消息。"
)
_CHECK = (
    "Check the disk and the rights of localOffsetStoreDir (~/.rocketmq_offsets, or "
    "-Drocketmq.client.localOffsetStoreDir) on the client's host; in Docker set it to a persistent path, or a restart "
    "skips or repeats messages. Switch on the client log: it says 'persist consumer offset exception'."
)
_CHECK_ZH = (
    "请检查客户端主机上 localOffsetStoreDir 的磁盘和权限（~/.rocketmq_offsets，或 "
    "-Drocketmq.client.localOffsetStoreDir）；在 Docker 中请设为持久化路径，否则重启会跳过或重复消费消息。请打开客户端"
    "日志：其中会有 'persist consumer offset exception'。"
)

_MENDED_4, _BROKEN_5, _MENDED_5 = 409, 413, 453
"""4.9.8, 5.0.0 and 5.2.0: between them LocalFileOffsetStore writes no correction (MQVersion's numbers)."""

RULE = Rule(
    id="offset_store_not_persisting",
    severity=Severity.WARNING,
    place=140,
    never_muted=True,
    needs=("offset_moves", "log_lines", "groups"),
    means="A client of a broadcasting group cannot save its offsets, and asks for the same old one again and again.",
    texts={
        "default": Texts(
            summary="{clients} of {consumer_group} cannot persist its local offsets",
            summary_zh="{consumer_group} 的 {clients} 无法持久化本地位点",
            cause="Client {clients} of {consumer_group} cannot persist its local offsets: " + _LOOPED + ".",
            cause_zh="{consumer_group} 的客户端 {clients} 无法持久化本地位点：" + _LOOPED_ZH,
            do_next=_CHECK,
            do_next_zh=_CHECK_ZH,
        ),
        "old_client": Texts(
            summary="{clients} of {consumer_group} cannot correct its local offsets",
            summary_zh="{consumer_group} 的 {clients} 无法纠正本地位点",
            cause="Client {clients} of {consumer_group} cannot correct its local offsets, as clients before 4.9.8 and "
            "from 5.0 to 5.1 ({versions}) never write a corrected one to offsets.json: " + _LOOPED + ".",
            cause_zh="{consumer_group} 的客户端 {clients} 无法纠正本地位点：4.9.8 之前以及 5.0 到 5.1 的客户端"
            "（{versions}）不会把纠正后的位点写入 offsets.json。" + _LOOPED_ZH,
            do_next="Stop the client, delete its offsets.json below localOffsetStoreDir (~/.rocketmq_offsets, or "
            "-Drocketmq.client.localOffsetStoreDir), and start it; it begins where its consumeFromWhere says. So that "
            "it does not happen again, upgrade the clients to 4.9.8, or to 5.2.0 or later.",
            do_next_zh="请停止该客户端，删除其 localOffsetStoreDir（~/.rocketmq_offsets，或 "
            "-Drocketmq.client.localOffsetStoreDir）下的 offsets.json，再启动；它会按 consumeFromWhere 开始消费。"
            "为避免再次发生，请把客户端升级到 4.9.8，或 5.2.0 及以上版本。",
        ),
        "model_unknown": Texts(
            summary="{clients} of {consumer_group} asks for the same offset again and again",
            summary_zh="{consumer_group} 的 {clients} 反复请求同一位点",
            cause="Client {clients} of {consumer_group} does not keep the offset that it is sent to: " + _LOOPED + ".",
            cause_zh="{consumer_group} 的客户端 {clients} 没有保存纠正后的位点：" + _LOOPED_ZH,
            do_next="If the group broadcasts (its clients could not be seen): " + _CHECK + " Otherwise something sets "
            "its offset back after each correction: look for tools or code that reset the offsets of {consumer_group}.",
            do_next_zh="如果该消费组是广播消费（没有读到其客户端）：" + _CHECK_ZH + "否则就是每次纠正之后位点又被改了"
            "回去：请查找重置 {consumer_group} 位点的工具或代码。",
        ),
        "not_written": Texts(
            summary="{clients} of {consumer_group} cannot write its local offsets",
            summary_zh="{consumer_group} 的 {clients} 无法写入本地位点",
            cause="The log of client {clients} of {consumer_group} says since {first_moved_at:moment} that its offset "
            "file cannot be written ({line_count:messages} line{line_count:plural}): after its next restart it will "
            "skip or repeat messages.",
            cause_zh="{consumer_group} 的客户端 {clients} 的日志自 {first_moved_at:moment} 起提示位点文件无法写入"
            "（{line_count:messages} 行）：下次重启后会跳过或重复消费消息。",
        ),
    },
    title="local offsets are not saved",
    title_zh="本地位点无法保存",
    table=("clients", "requested_offset", "corrected_offset", "lost", "move_count", "period_ms", "last_moved_at"),
    began="first_moved_at",
    peak="lost",
    recovered="no client of it asked for the same offset again within the look-back window",
    recovered_zh="回看窗口内没有客户端反复请求同一位点",
    explains=(
        Explains(
            Scope.GROUP,
            (
                "offset_moved_by_retention",
                "messages_lost",
                "offset_reset",
                "offsets_violate_invariant",
                "membership_disagrees",
                "rebalance_noise",
            ),
        ),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with a client that loops; per group where only its log tells."""
    refreshed = {(one.consumer_group, one.topic): one.refreshed_count for one in facts.subscriptions}
    unwritten, old = _unwritten(facts), _old_clients(facts)
    found = set()
    for (consumer_group, topic), one in causes(facts, config).items():
        if not one.not_persisted or one.model == CLUSTERING:
            continue
        found.add(consumer_group)
        loses = any(move.corrected_offset > move.requested_offset for move in one.not_persisted)
        yield RULE.finding(
            facts,
            about=(consumer_group, topic),
            # messages are lost, and it goes on until somebody mends the disk
            severity=Severity.CRITICAL if one.model == BROADCASTING and loses else RULE.severity,
            unsure=one.model is None,
            variant="model_unknown"
            if one.model != BROADCASTING
            else "old_client"
            if consumer_group in old and consumer_group not in unwritten
            else "default",
            state="LOST" if loses else "STALLED",
            figures={
                **move_figures(one.not_persisted),
                **({"clients": _names(unwritten[consumer_group])} if consumer_group in unwritten else {}),
                # "subscription changed" lines with another subVersion only: each of these rebalances prints one
                "refreshed_count": refreshed.get((consumer_group, topic)),
                "versions": old.get(consumer_group),
            },
            queues=move_evidence(one.not_persisted),
            broker_names=frozenset(move.broker_name for move in one.not_persisted),
        )
    yield from _only_logged(facts, found)


def _unwritten(facts: IntervalFacts) -> dict[str, list[LogLineFacts]]:
    """Return by group what its clients' own logs say of files that cannot be written."""
    by_group: dict[str, list[LogLineFacts]] = defaultdict(list)
    for line in facts.log_lines:
        if line.kind == FILE_NOT_WRITTEN:
            by_group[line.consumer_group].append(line)
    return by_group


def _old_clients(facts: IntervalFacts) -> dict[str, str]:
    """Return the versions of the groups' clients by group where all of them are Java's and have the mistake."""
    known: list[OnlineGroupFacts | GroupFacts] = [*facts.online_groups, *facts.groups]
    found = {}
    for group in known:
        versions = [text.rpartition(" ") for text in group.client_versions or ()]
        if versions and all(language == "JAVA" and number.isdecimal() for language, _, number in versions):
            ordinals = sorted(int(number) for _, _, number in versions)
            if all(one < _MENDED_4 or _BROKEN_5 <= one < _MENDED_5 for one in ordinals):
                found[group.consumer_group] = ", ".join(map(version_name, ordinals))
    return found


def _names(lines: list[LogLineFacts]) -> str:
    return ", ".join(sorted({name for line in lines for name in line.client_ids or (line.source,)}))


def _only_logged(facts: IntervalFacts, found: set[str]) -> Iterator[Finding]:
    for consumer_group, lines in sorted(_unwritten(facts).items()):
        if consumer_group not in found:
            figures: dict[str, Figure] = {
                "clients": _names(lines),
                "line_count": sum(line.line_count for line in lines),
                "first_moved_at": min(line.first_at for line in lines),
                "last_moved_at": max(line.last_at for line in lines),
            }
            variant, state = "not_written", "AT_RISK"
            yield Finding(RULE, facts.cluster, consumer_group, None, RULE.severity, figures, (), variant, state)


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Where no broker tells of corrections: 5.x writes no event, and nobody reads its log."""
    if silent := silent_about_corrections(facts, config):
        yield RULE.cannot_tell(Sentence("no_log_is_read"), brokers=silent)
