"""store.log: speed of the store, slow writes, deletion of old files, a disk that fills up.

Source: StoreStatsService, CommitLog, DefaultMessageStore, MappedFile of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from offsetguard.sources.logs.pattern import FLOAT, INT, NAME, REST, LogKind, Pattern, floats, integers, text

_LOGS = (LogKind.STORE,)

PATTERNS = (
    Pattern(
        kind="store_tps",
        log_kinds=_LOGS,
        must_contain="[STORETPS] put_tps",
        regex=r"^\[STORETPS\] put_tps "
        + f"{FLOAT} get_found_tps {FLOAT} get_miss_tps {FLOAT} get_transferr?ed_tps {FLOAT}",
        fields=floats("put_tps", "get_found_tps", "get_miss_tps", "get_transferred_tps"),
        meaning="messages per second, over a minute; NULL right after a start",
        source="StoreStatsService 4.9.7, 4.9.8 (transfered), 5.3.3, 5.5.0 (transferred)",
        routine=True,
    ),
    Pattern(
        kind="page_cache_time",
        log_kinds=_LOGS,
        must_contain="[PAGECACHERT] TotalPut",
        regex=r"^\[PAGECACHERT\] TotalPut " + f"{INT}, PutMessageDistributeTime {REST}",
        fields=(*integers("put_count"), *text("distribution")),
        meaning="how many writes took how long, over a minute",
        source="StoreStatsService 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    Pattern(
        kind="put_latency",
        log_kinds=_LOGS,
        must_contain="findPutMessageEntireTimePX",
        regex=f"^findPutMessageEntireTimePX {FLOAT}={FLOAT}ms cost {INT}ms",
        fields=(*floats("quantile", "put_ms"), *integers("cost_ms")),
        meaning="a quantile of the time that a write takes",
        source="StoreStatsService 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    Pattern(
        kind="put_slow",
        log_kinds=_LOGS,
        must_contain="in lock cost time(ms)=",
        regex=r"^\[NOTIFYME\]putMessages? in lock cost time\(ms\)="
        + f"{INT}, bodyLength={INT} AppendMessageResult={REST}",
        fields=(*integers("elapsed_ms", "body_bytes"), *text("append_result")),
        meaning="a write held the commit log's lock for more than 500 ms: the disk is slow",
        source="CommitLog 4.9.7, 5.5.0",
    ),
    Pattern(
        kind="put_slow",
        log_kinds=_LOGS,
        must_contain="not in lock elapsed time(ms)=",
        regex=r"^(?:putMessage )?not in lock elapsed time\(ms\)=" + f"{INT}, bodyLength={INT}",
        fields=integers("elapsed_ms", "body_bytes"),
        meaning="a write took more than 500 ms, waiting included",
        source="DefaultMessageStore 4.9.7",
    ),
    Pattern(
        kind="put_slow",
        log_kinds=_LOGS,
        must_contain="CommitLog#putMessage cost ",
        regex=f"^DefaultMessageStore#putMessage: CommitLog#putMessage cost {INT}ms, topic={NAME}, bodyLength={INT}",
        fields=(*integers("elapsed_ms"), *text("topic"), *integers("body_bytes")),
        meaning="a write took more than 500 ms, waiting included",
        source="DefaultMessageStore 5.5.0",
    ),
    Pattern(
        kind="deletion_started",
        log_kinds=_LOGS,
        must_contain="begin to delete before",
        regex=f"^begin to delete before {INT} hours file\\. "
        + r"(?:timeup|isTimeUp): (true|false) (?:spacefull|isUsageExceedsThreshold): (true|false) "
        + f"manualDeleteFileSeveralTimes: {INT} cleanAtOnce: (true|false)",
        fields=(
            *integers("file_reserved_hours"),
            *text("time_is_up", "space_is_full"),
            *integers("manual_rounds_left"),
            *text("clean_at_once"),
        ),
        meaning="the broker begins to delete old commit log files: min offsets move",
        source="DefaultMessageStore 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="file_deleted",
        log_kinds=_LOGS,
        must_contain="delete file[REF:",
        regex=r"^delete file\[REF:-?[0-9]{1,10}\] " + f"([^\\n]{{1,4096}}?) (OK|Failed), W:{INT} M:{INT}, ",
        fields=(*text("path", "outcome"), *integers("wrote_position", "flushed_position")),
        meaning="one file of the store was deleted",
        source="MappedFile 4.9.7, 4.9.8; DefaultMappedFile 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="queue_file_deleted",
        log_kinds=_LOGS,
        must_contain="logics in current mappedFile max offset",
        regex=f"^physic min offset {INT}, logics in current mappedFile max offset {INT}, delete it",
        fields=integers("commit_log_min_offset", "file_max_offset"),
        meaning="a consume queue file points to deleted messages only and goes, too",
        source="MappedFileQueue 4.9.7, 4.9.8",
    ),
    Pattern(
        kind="disk_filling_up",
        log_kinds=_LOGS,
        must_contain="maybe full soon",
        regex=r"^(physic|logics|commitLog|consumeQueue) disk (?:of commitLog )?maybe full soon"
        + f"(?:, so reclaim space,|, used)? {FLOAT}",
        fields=(*text("disk"), *floats("used_ratio")),
        meaning="the disk is nearly full: files are deleted early, and above 0.9 nothing is written any more",
        source="DefaultMessageStore$CleanCommitLogService 4.9.7, 5.5.0",
    ),
    Pattern(
        kind="deletion_failed",
        log_kinds=_LOGS,
        must_contain="disk space will be full soon, but delete file failed",
        regex=r"^disk space will be full soon, but delete file failed",
        meaning="the disk is nearly full and there is no file that may go",
        source="DefaultMessageStore$CleanCommitLogService 4.9.7, 5.5.0",
    ),
    Pattern(
        kind="queues_truncated",
        log_kinds=_LOGS,
        must_contain="truncate dirty logic files",
        regex=f"^maxPhyOffsetOfConsumeQueue\\({INT}\\) >= processOffset\\({INT}\\), truncate dirty logic files",
        fields=integers("queue_max_position", "commit_log_end"),
        meaning="at its start the broker cut its queues back to the end of the commit log: max offsets may fall",
        source="CommitLog 4.9.7, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="commit_log_lost",
        log_kinds=_LOGS,
        must_contain="The commitlog files are deleted",
        regex=r"^The commitlog files are deleted, and delete the consume queue files",
        meaning="the broker started without its commit log: all queues begin at 0 again (normal at the first start)",
        source="CommitLog 4.9.7, 5.3.3, 5.5.0",
    ),
)
