"""What a broker's store and its counters say of themselves, each minute.

store.log: speed of the store, slow writes, deletion of old files, a disk that fills up; requests that wait.
watermark.log has every queue of requests each second, protection.log the groups that the broker switched off.
Source: StoreStatsService, CommitLog, DefaultMessageStore, MappedFile, BrokerController of 4.9.7, 4.9.8, 5.3.3, 5.5.0.

stats.log: what a replica counts, each minute, hour and day. A client writes such lines into its own log.
Source: StatsItem, MomentStatsItem, BrokerStatsManager, ConsumerStatsManager of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
Latencies are printed as TIMES and AVGRT since 4.7, as SUM, TPS and AVGPT before (and 5.x TOPIC_PUT_LATENCY still).
A moment item's value is set back to 0 after each print. Two brokers that share a folder print each key twice.
"""

from functools import partial

from offsetguard.sources.logs.pattern import LogKind, forms, pattern

_NAME = r"[^@\]\n]{1,512}"
_BY_GROUP = (  # what the name in the first brackets may be, and what stands in the second ones
    r"(?:GROUP|SNDBCK|DLQ|PULL|CONSUME)_(?:GET|PUT|ACK|CK|OK|FAILED|FROM_DISK|TPS|RT)(?:_NUMS|_SIZE|_TPS|_RT)?"
    r"|GROUP_GET_FROM_DISK_(?:NUMS|SIZE)",
    f"<topic:{_NAME}>@<consumer_group:{_NAME}>",
)
_BY_QUEUE_AND_GROUP = (
    r"GROUP_GET_(?:LATENCY|FALL_SIZE|FALL_TIME)",
    f"<queue_id:unsigned>@<topic:{_NAME}>@<consumer_group:{_NAME}>",
)
_BY_TOPIC = (r"TOPIC_PUT_(?:NUMS|SIZE)", f"<topic:{_NAME}>")
_BY_QUEUE = (r"TOPIC_PUT_LATENCY", f"<queue_id:unsigned>@<topic:{_NAME}>")
_OTHERWISE = (r"[A-Z0-9_]{1,100}", r"<stats_key:[^\]\n]{1,1100}>")  # a cluster, an event
_FIGURES = (
    (
        "stats_counted",
        " AVGPT: ",
        "Stats In One <span:Minute|Hour|Day>, SUM: <sum:int> TPS: <tps:float> AVGPT: <average:float>",
        "a sum over the span, its rate per second, and the amount per call",
        (_BY_GROUP, _BY_QUEUE_AND_GROUP, _BY_TOPIC, _BY_QUEUE, _OTHERWISE),
    ),
    (
        "stats_timed",
        " AVGRT: ",
        "Stats In One <span:Minute|Hour|Day>, TIMES: <times:int> AVGRT: <average_ms:float>",
        "calls in the span and their mean time",
        (_BY_GROUP, _BY_QUEUE_AND_GROUP, _OTHERWISE),
    ),
    (
        "stats_moment",
        "Stats Every 5 Minutes, Value: ",
        "Stats Every 5 Minutes, Value: <value:int>",
        "the last value in 5 min: bytes (FALL_SIZE) or ms (FALL_TIME) that a group reads behind the end",
        (_BY_QUEUE_AND_GROUP, _OTHERWISE),
    ),
)

_STATS = tuple(
    pattern(
        (LogKind.STATS, LogKind.CLIENT),
        kind,
        f"^\\[<stats_name:{names}>\\] \\[{key}\\] {figures}",
        must_contain=must_contain,
        meaning=meaning,
        source="StatsItem, MomentStatsItem 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    )
    for kind, must_contain, figures, meaning, keys in _FIGURES
    for names, key in keys
)


_line, _forms = partial(pattern, (LogKind.STORE,)), partial(forms, (LogKind.STORE,))
_watermark = partial(pattern, (LogKind.WATERMARK,))

_STORE = (
    _line(
        "store_tps",
        r"^\[STORETPS\] put_tps <put_tps:float> get_found_tps <get_found_tps:float> get_miss_tps "
        "<get_miss_tps:float> get_transferr?ed_tps <get_transferred_tps:float>",
        meaning="messages per second, over a minute; NULL right after a start",
        source="StoreStatsService 4.9.7, 4.9.8 (transfered), 5.3.3, 5.5.0 (transferred)",
        routine=True,
    ),
    _line(
        "page_cache_time",
        r"^\[PAGECACHERT\] TotalPut <put_count:int>, PutMessageDistributeTime <distribution:rest>",
        meaning="how many writes took how long, over a minute",
        source="StoreStatsService 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    _line(
        "put_latency",
        "^findPutMessageEntireTimePX <quantile:float>=<put_ms:float>ms cost <cost_ms:int>ms",
        meaning="a quantile of the time that a write takes",
        source="StoreStatsService 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    _line(
        "put_slow",
        r"^\[NOTIFYME\]putMessages? in lock cost time\(ms\)=<elapsed_ms:int>, bodyLength=<body_bytes:int> "
        "AppendMessageResult=<append_result:rest>",
        meaning="a write held the commit log's lock for more than 500 ms: the disk is slow",
        source="CommitLog 4.9.7, 5.5.0",
    ),
    *_forms(
        "put_slow",
        "a write took more than 500 ms, waiting included",
        (
            "DefaultMessageStore 4.9.7",
            r"^(?:putMessage )?not in lock e(?:lapsed|clipse) time\(ms\)=<elapsed_ms:int>, "
            "bodyLength=<body_bytes:int>",
        ),
        (
            "DefaultMessageStore 5.5.0",
            "^DefaultMessageStore#putMessage: CommitLog#putMessage cost <elapsed_ms:int>ms, topic=<topic>, "
            "bodyLength=<body_bytes:int>",
        ),
    ),
    _line(
        "deletion_started",
        r"^begin to delete before <file_reserved_hours:int> hours file\. (?:timeup|isTimeUp): "
        "<time_is_up:true|false> (?:spacefull|isUsageExceedsThreshold): <space_is_full:true|false> "
        "manualDeleteFileSeveralTimes: <manual_rounds_left:int> cleanAtOnce: <clean_at_once:true|false>",
        meaning="the broker begins to delete old commit log files: min offsets move",
        source="DefaultMessageStore 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    _line(
        "file_deleted",
        r"^delete file\[REF:-?[0-9]{1,10}\] <path:[^\n]{1,4096}?> <outcome:OK|Failed>, W:<wrote_position:int> "
        "M:<flushed_position:int>, ",
        meaning="one file of the store was deleted",
        source="MappedFile 4.9.7, 4.9.8; DefaultMappedFile 5.3.3, 5.5.0",
    ),
    _line(
        "queue_file_deleted",
        "^physic min offset <commit_log_min_offset:int>, logics in current mappedFile max offset "
        "<file_max_offset:int>, delete it",
        meaning="a consume queue file points to deleted messages only and goes, too",
        source="MappedFileQueue 4.9.7, 4.9.8",
    ),
    _line(
        "disk_unreadable",
        "^<disk:physic|logics|commitLog|consumeQueue> disk (?:of commitLog )?maybe full soon(?:, so reclaim "
        r"space,|, used)? -1(?:\.0)?",
        meaning="the broker cannot read how full its disk is (-1), which is no full disk: rights, SELinux, a path that "
        "is gone; before 5.x it deletes files early all the same",
        source="DefaultMessageStore$CleanCommitLogService 4.2, 4.9.7; UtilAll.getDiskPartitionSpaceUsedPercent",
    ),
    _line(
        "disk_filling_up",
        "^<disk:physic|logics|commitLog|consumeQueue> disk (?:of commitLog )?maybe full soon(?:, so reclaim "
        "space,|, used)? <used_ratio:float>",
        meaning="the disk is nearly full: files are deleted early, and above 0.9 nothing is written any more",
        source="DefaultMessageStore$CleanCommitLogService 4.9.7, 5.5.0",
    ),
    _line(
        "deletion_failed",
        "^disk space will be full soon, but delete file failed",
        meaning="the disk is nearly full and there is no file that may go",
        source="DefaultMessageStore$CleanCommitLogService 4.9.7, 5.5.0",
    ),
    _line(
        "queues_truncated",
        r"^maxPhyOffsetOfConsumeQueue\(<queue_max_position:int>\) >= processOffset\(<commit_log_end:int>\), "
        "truncate dirty logic files",
        meaning="at its start the broker cut its queues back to the end of the commit log: max offsets may fall",
        source="CommitLog 4.9.7, 5.3.3, 5.5.0",
    ),
    _line(
        "queue_order_wrong",
        r"^\[BUG\]logic queue order maybe wrong, expectLogicOffset: <expected_position:int> currentLogicOffset: "
        "<queue_position:int> Topic: <topic> QID: <queue_id:int> Diff: <difference_bytes:int>",
        meaning="a consume queue (20 bytes for each message) does not end where a message is to be added: entries are "
        "missing before it (below 0: there are too many), until the broker builds the queue anew",
        source="ConsumeQueue 3.2 to 5.x (storeerror.log); apache/rocketmq#7355, alibaba/rocketmq#354",
    ),
    _line(
        "commit_log_lost",
        "^The commitlog files are deleted, and delete the consume queue files",
        meaning="the broker started without its commit log: all queues begin at 0 again (normal at the first start)",
        source="CommitLog 4.9.7, 5.3.3, 5.5.0",
    ),
)

_WATERMARKS = (
    _watermark(
        "request_queue",
        r"^\[WATERMARK\] <request_kind:[A-Za-z][A-Za-z ]{0,60}> Queue Size: <waiting_count:int> "
        "SlowTimeMills: <oldest_wait_ms:int>",
        meaning="how many requests of a kind wait for a thread, and how long the oldest has waited",
        source="BrokerController 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    pattern(
        (LogKind.WATERMARK, LogKind.BROKER),
        "consumer_disabled",
        r"^\[PROTECT_BROKER\] the consumer\[<consumer_group:[^\]\n]{1,512}>\] consume slowly, "
        "<behind_bytes:int> bytes, disable it",
        meaning="the broker switched a slow group off (disableConsumeIfConsumerReadSlowly)",
        source="BrokerController 4.9.7, 5.5.0",
    ),
)

PATTERNS = (*_STATS, *_STORE, *_WATERMARKS)
