CREATE TABLE IF NOT EXISTS offsetguard.facts.queue_snapshots (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  consumer_group string NOT NULL COMMENT 'consumer group',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int NOT NULL COMMENT 'number of the queue within (topic, broker)',
  min_offset bigint COMMENT 'oldest message that the broker still keeps',
  max_offset bigint COMMENT 'broker offset: number of the next message to be written',
  consumer_offset bigint COMMENT 'committed: next to be consumed; NULL = never committed or not seen',
  pull_offset bigint COMMENT 'next to be pulled; NULL where the broker cannot tell (before 5.1)',
  last_timestamp timestamp COMMENT 'store time of message consumer_offset - 1; NULL = unknown (deleted or never)',
  oldest_unconsumed_at timestamp COMMENT 'store time of the message at consumer_offset; NULL = nothing waits, or unknown',
  consumer_offset_read_at timestamp COMMENT 'when consumer_offset was read (always before pull and max)',
  pull_offset_read_at timestamp COMMENT 'when pull_offset was read',
  max_offset_read_at timestamp COMMENT 'when min_offset and max_offset were read',
  origin string NOT NULL COMMENT 'where the offsets come from: broker, or state_file'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'offsets of every consumer group in every queue of its topics'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.topic_queue_snapshots (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int NOT NULL COMMENT 'number of the queue within (topic, broker)',
  min_offset bigint COMMENT 'oldest message that the broker still keeps; NULL = not answered',
  max_offset bigint COMMENT 'number of the next message to be written; NULL = not answered',
  last_update_at timestamp COMMENT 'store time of the newest message; NULL = none',
  read_at timestamp COMMENT 'when the broker answered; NULL = it did not'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'every queue of every topic, whether or not a group consumes it; RocketMQ\'s own topics excepted'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.topic_settings (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  topic_kind string NOT NULL COMMENT 'normal, retry, dead_letter or system',
  read_queue_nums int NOT NULL COMMENT 'queues that consumers read',
  write_queue_nums int NOT NULL COMMENT 'queues that producers write',
  perm int NOT NULL COMMENT '2 = write, 4 = read, 6 = both',
  orderly boolean NOT NULL COMMENT 'the topic\'s order flag'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'settings of every topic on every master'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.group_snapshots (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  consumer_group string NOT NULL COMMENT 'consumer group',
  system_group boolean NOT NULL COMMENT 'a group of RocketMQ\'s own; never judged',
  retry_max_times int COMMENT 'retries before a message goes to %DLQ%',
  consume_enabled boolean COMMENT 'false = the broker refuses the group\'s pulls',
  which_broker_when_consume_slowly bigint COMMENT 'broker id that is suggested for reads far behind the end',
  online_client_count int COMMENT 'connected clients of the group; 0 = offline; NULL = could not be seen',
  message_model string COMMENT 'CLUSTERING or BROADCASTING; NULL = no client online to tell',
  consume_type string COMMENT 'CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP; NULL = unknown',
  declared_orderly boolean COMMENT 'the configuration says that the group consumes orderly',
  lock_interval_ms bigint COMMENT 'declared client setting rocketmq.client.rebalance.lockInterval, ms',
  lock_max_live_time_ms bigint COMMENT 'declared broker setting rocketmq.broker.rebalance.lockMaxLiveTime, ms',
  members_differ boolean COMMENT 'the masters list different clients for the group; NULL = fewer than two masters could be compared',
  retry_message_count bigint COMMENT 'messages kept in the group\'s retry topics; NULL = not seen',
  retry_max_offset bigint COMMENT 'sum of max offsets of the group\'s retry topics: grows with every retry',
  retry_growth bigint COMMENT 'retry_max_offset since the round before; NULL = no such round, or recreated',
  dead_letter_message_count bigint COMMENT 'messages kept in %DLQ% of the group; NULL = not seen',
  dead_letter_max_offset bigint COMMENT 'sum of max offsets of %DLQ%: grows with every dead letter',
  dead_letter_growth bigint COMMENT 'dead_letter_max_offset since the round before; NULL as for retry_growth',
  consumption string COMMENT 'classic: committed means consumed; pop: committed means handed out; NULL = could not be told',
  consumption_evidence string COMMENT 'what told, e.g. retry_topic, pop_statistics, pop_table, running_info, remembered; NULL = nothing did',
  pop_available bigint COMMENT 'pop: messages not yet handed out, main and retry topics; NULL = classic or unknown',
  pop_inflight bigint COMMENT 'pop: messages handed out and not acknowledged; NULL = classic or unknown',
  pop_inflight_origin string COMMENT 'running_info or broker_metrics; NULL = pop_inflight is unknown',
  lite_topic_count bigint COMMENT 'lite topics (%LMQ%) with offsets of the group, folded into their parents',
  lite_lag bigint COMMENT 'messages that wait in those lite topics; NULL = none, or not asked in this round',
  suspect_reason string COMMENT 'why the group was looked at in detail; NULL = provably healthy',
  in_detail boolean NOT NULL COMMENT 'asked in detail in this round: pull offsets, rates, running info'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per consumer group: settings, connections, and the lock settings that its owner declared'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.client_snapshots (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  consumer_group string NOT NULL COMMENT 'consumer group',
  client_id string NOT NULL COMMENT 'client id, usually ip@instance',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  broker_id bigint NOT NULL COMMENT 'replica that sees the client; 0 = master',
  client_address string COMMENT 'ip:port as the broker sees it',
  language string COMMENT 'client language',
  version int COMMENT 'MQVersion ordinal of the client',
  subscriptions array<string> COMMENT 'the group\'s subscriptions on this broker, `topic expression`',
  running_info_read_at timestamp COMMENT 'when the client\'s running info came; NULL = not asked, or refused',
  running_info_failure string COMMENT 'why it did not come although it was asked',
  own_subscriptions array<string> COMMENT 'what the client itself subscribes to, `topic expression`',
  orderly boolean COMMENT 'the client consumes orderly (PROP_CONSUMEORDERLY)',
  client_version_name string COMMENT 'PROP_CLIENT_VERSION, e.g. V4_9_7',
  consumer_start_at timestamp COMMENT 'PROP_CONSUMER_START_TIMESTAMP',
  thread_count int COMMENT 'PROP_THREADPOOL_CORE_SIZE: consume threads',
  max_reconsume_times int COMMENT 'maxReconsumeTimes; -1 = the default: 16, or endless for orderly',
  pull_threshold_for_queue int COMMENT 'cached messages per queue at which the client stops pulling',
  pull_threshold_size_for_queue_mib int COMMENT 'the same in MiB',
  held_queue_count int COMMENT 'queues that the client holds',
  locked_queue_count int COMMENT 'of these, locked ones (means something for orderly clients only)',
  cached_message_count bigint COMMENT 'messages that the client has pulled and not finished',
  cached_message_mib bigint COMMENT 'the same in MiB',
  pop_wait_ack_count bigint COMMENT 'pop: messages handed out to the client and not acknowledged',
  consume_ok_tps double COMMENT 'messages finished per second, over its topics',
  consume_failed_tps double COMMENT 'messages failed per second, over its topics',
  consume_rt_ms double COMMENT 'mean time to consume a message, ms; the slowest topic\'s',
  pull_tps double COMMENT 'messages pulled per second, over its topics'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per connected client of a group and broker replica that sees it; running info where it was asked'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.client_queue_snapshots (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  consumer_group string NOT NULL COMMENT 'consumer group',
  client_id string NOT NULL COMMENT 'the client that holds the queue',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int NOT NULL COMMENT 'number of the queue; -1 = all queues of the broker (pop)',
  commit_offset bigint COMMENT 'what the client would commit; NULL = nothing yet',
  cached_message_count bigint COMMENT 'messages pulled and not finished',
  cached_message_mib bigint COMMENT 'the same in MiB',
  cached_min_offset bigint COMMENT 'oldest of them',
  cached_max_offset bigint COMMENT 'newest of them',
  transaction_message_count bigint COMMENT 'messages in an orderly listener\'s hands',
  dropped boolean COMMENT 'the client is giving the queue up',
  locked boolean COMMENT 'the client believes that it holds the rebalance lock',
  last_lock_at timestamp COMMENT 'last renewal of the lock; starts as the time at which the queue was taken',
  last_pull_at timestamp COMMENT 'last pull',
  last_consume_at timestamp COMMENT 'last message finished; starts as the time at which the queue was taken',
  pop_wait_ack_count bigint COMMENT 'pop: handed out and not acknowledged',
  last_pop_at timestamp COMMENT 'pop: last time messages were handed out',
  read_at timestamp NOT NULL COMMENT 'when the client answered'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'what a client says of a queue that it holds (running info, of the clients that were asked)'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.broker_snapshots (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  broker_id bigint NOT NULL COMMENT '0 = master',
  address string NOT NULL COMMENT 'ip:port as the name server lists it',
  answered boolean NOT NULL COMMENT 'the replica answered at least one request of this round',
  failure string COMMENT 'why it did not answer; NULL = it did',
  version string COMMENT 'broker version, e.g. V4_9_7',
  boot_at timestamp COMMENT 'when the broker was started',
  commit_log_min_offset bigint COMMENT 'oldest byte kept in the commit log',
  commit_log_max_offset bigint COMMENT 'next byte to be written to the commit log',
  commit_log_disk_ratio double COMMENT 'used share of the commit log\'s disk, 0..1',
  dispatch_behind_bytes bigint COMMENT 'commit log not yet in the consume queues, bytes',
  slave_behind_bytes bigint COMMENT 'slave: the master\'s commit_log_max_offset minus its own; NULL = not both seen',
  put_tps double COMMENT 'messages written per second over the last minute',
  get_found_tps double COMMENT 'pulls that found messages per second over the last minute',
  get_transferred_tps double COMMENT 'messages handed out per second over the last minute',
  page_cache_lock_time_ms bigint COMMENT 'how long the current write holds the page cache\'s lock, ms: busy',
  send_queue_size bigint COMMENT 'send requests that wait',
  pull_queue_size bigint COMMENT 'pull requests that wait',
  pull_queue_head_wait_ms bigint COMMENT 'how long the first of them waits, ms',
  earliest_message_at timestamp COMMENT 'store time of the oldest message kept',
  role string COMMENT 'broker setting brokerRole: ASYNC_MASTER, SYNC_MASTER or SLAVE',
  slave_read_enable boolean COMMENT 'broker setting slaveReadEnable',
  file_reserved_time_hours int COMMENT 'broker setting fileReservedTime, hours',
  delete_when string COMMENT 'broker setting deleteWhen, hour of day',
  disk_max_used_space_ratio int COMMENT 'broker setting diskMaxUsedSpaceRatio, percent',
  access_message_in_memory_max_ratio int COMMENT 'percent of memory beyond which reads are sent to the slave',
  broker_permission int COMMENT 'broker setting brokerPermission: 2 = write, 4 = read, 6 = both',
  active boolean COMMENT '5.x brokerActive: false = serves no writes; NULL before 5.x',
  read_at timestamp COMMENT 'when the broker answered'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per broker replica that the name server lists'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.broker_stats (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  broker_id bigint NOT NULL COMMENT 'replica that counted; 0 = master',
  stats_name string NOT NULL COMMENT 'e.g. GROUP_GET_NUMS, TOPIC_PUT_NUMS, SNDBCK_PUT_NUMS, GROUP_GET_LATENCY',
  stats_key string NOT NULL COMMENT 'e.g. topic@group',
  topic string COMMENT 'topic of the key; NULL = it has none',
  consumer_group string COMMENT 'group of the key; NULL = it has none',
  queue_id int COMMENT 'queue of the key; NULL = it has none',
  counted boolean NOT NULL COMMENT 'false = nothing counted since the replica\'s start: the rates are 0',
  tps double NOT NULL COMMENT 'per second over the last minute; latencies: ms of all requests per second',
  minute_sum bigint NOT NULL COMMENT 'sum over 10 to 60 s; use tps',
  average double NOT NULL COMMENT 'amount per time over the last minute; latencies: ms per request',
  hour_sum bigint NOT NULL COMMENT 'sum over the last hour',
  day_sum bigint NOT NULL COMMENT 'sum over the last day',
  read_at timestamp NOT NULL COMMENT 'when the replica answered'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'rates that a replica counts itself; only the replica that served a pull counts it, so a group\'s rate is the sum'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.offset_moves (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  origin string NOT NULL COMMENT 'event, log or snapshot',
  source string NOT NULL COMMENT 'event: broker that stored it; log: log source and file; snapshot: broker/topic/queue/group',
  position bigint NOT NULL COMMENT 'event: offset in its topic; log: byte position in the file; snapshot: interval start, ms since 1970',
  moved_at timestamp NOT NULL COMMENT 'store time of the event; time of the log line; when the second offset was read',
  consumer_group string NOT NULL COMMENT 'consumer group',
  client_id string COMMENT 'the client that asked; a log line gives its address; NULL = the source does not say',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int COMMENT 'number of the queue; NULL: log lines do not say',
  requested_offset bigint NOT NULL COMMENT 'offset that the client asked for, or had committed before',
  corrected_offset bigint NOT NULL COMMENT 'offset that it was sent to; snapshot: committed since, or the oldest message kept if that had passed it'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'offsets that a broker corrected or that jumped: from events (4.x), broker logs, and differences of snapshots'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.log_events (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  source string NOT NULL COMMENT 'name of the log source in the configuration',
  file string NOT NULL COMMENT 'file name and identity, so that a rotated file keeps its own',
  position bigint NOT NULL COMMENT 'byte position of the line\'s start in the uncompressed file',
  kind string NOT NULL COMMENT 'name of the pattern, see docs/logs.md',
  at timestamp COMMENT 'time of the line; NULL = the line carries none',
  broker_name string COMMENT 'broker that wrote the log; NULL = a client\'s log',
  broker_id bigint COMMENT 'its replica; 0 = master',
  consumer_group string COMMENT 'group of the line; NULL = it names none',
  topic string COMMENT 'topic of the line; NULL = it names none',
  queue_id int COMMENT 'queue of the line; NULL = it names none',
  client_id string COMMENT 'client id or address of the line; NULL = it names none',
  fields_json string NOT NULL COMMENT 'every field of the pattern, as JSON'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'recognised lines of broker and client logs'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.queue_facts (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  consumer_group string NOT NULL COMMENT 'consumer group',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int NOT NULL COMMENT 'number of the queue within (topic, broker)',
  min_offset bigint COMMENT 'oldest message that the broker still keeps',
  max_offset bigint COMMENT 'broker offset: number of the next message to be written',
  consumer_offset bigint COMMENT 'committed: next to be consumed; NULL = never committed or not seen',
  pull_offset bigint COMMENT 'next to be pulled; NULL where the broker cannot tell (before 5.1)',
  last_timestamp timestamp COMMENT 'store time of message consumer_offset - 1; NULL = unknown (deleted or never)',
  oldest_unconsumed_at timestamp COMMENT 'store time of the message at consumer_offset; NULL = nothing waits, or unknown',
  lag bigint COMMENT 'max_offset - consumer_offset, messages',
  effective_lag bigint COMMENT 'max_offset - max(consumer_offset, min_offset), messages that can still be read',
  inflight bigint COMMENT 'pull_offset - consumer_offset, messages handed out and not yet committed',
  available bigint COMMENT 'max_offset - pull_offset, messages not yet handed out',
  lost bigint COMMENT 'max(0, min_offset - consumer_offset), messages deleted before they were consumed',
  lag_ms bigint COMMENT 'age of the oldest unconsumed message, ms; 0 = nothing waits; NULL = unknown',
  violated_invariants array<string> NOT NULL COMMENT 'ids of the trouble invariants that the row breaks'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'suspect queues: everything that is not provably healthy'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.group_facts (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  consumer_group string NOT NULL COMMENT 'consumer group',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  topic_kind string COMMENT 'normal, retry, dead_letter or system',
  queue_count int NOT NULL COMMENT 'queues of the topic that the group can read',
  unknown_queue_count int NOT NULL COMMENT 'queues without a max offset in this snapshot',
  never_committed_queue_count int NOT NULL COMMENT 'queues without a consumer offset',
  lag bigint COMMENT 'max_offset - consumer_offset, messages',
  effective_lag bigint COMMENT 'max_offset - max(consumer_offset, min_offset), messages that can still be read',
  inflight bigint COMMENT 'pull_offset - consumer_offset, messages handed out and not yet committed',
  available bigint COMMENT 'max_offset - pull_offset, messages not yet handed out',
  lost bigint COMMENT 'max(0, min_offset - consumer_offset), messages deleted before they were consumed',
  lag_ms bigint COMMENT 'age of the oldest unconsumed message, ms; 0 = nothing waits; NULL = unknown',
  online_client_count int COMMENT 'connected clients of the group; 0 = offline; NULL = could not be seen',
  message_model string COMMENT 'CLUSTERING or BROADCASTING; NULL = no client online to tell',
  consume_type string COMMENT 'CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP; NULL = unknown',
  declared_orderly boolean COMMENT 'the configuration says that the group consumes orderly',
  lock_interval_ms bigint COMMENT 'declared, ms',
  lock_max_live_time_ms bigint COMMENT 'declared, ms',
  violated_invariants array<string> NOT NULL COMMENT 'ids of the trouble invariants of the group row'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per (consumer group, topic), over all its queues'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.topic_facts (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  topic_kind string COMMENT 'normal, retry, dead_letter or system',
  queue_count int NOT NULL COMMENT 'queues of the topic',
  consumer_group_count int NOT NULL COMMENT 'groups with a row for the topic',
  message_count bigint COMMENT 'sum of max_offset - min_offset: messages kept',
  lag bigint COMMENT 'max_offset - consumer_offset, messages',
  effective_lag bigint COMMENT 'max_offset - max(consumer_offset, min_offset), messages that can still be read',
  inflight bigint COMMENT 'pull_offset - consumer_offset, messages handed out and not yet committed',
  available bigint COMMENT 'max_offset - pull_offset, messages not yet handed out',
  lost bigint COMMENT 'max(0, min_offset - consumer_offset), messages deleted before they were consumed',
  lag_ms bigint COMMENT 'age of the oldest unconsumed message, ms; 0 = nothing waits; NULL = unknown'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per topic, over all its queues and groups'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.offset_move_facts (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  consumer_group string NOT NULL COMMENT 'consumer group',
  client_id string COMMENT 'the client that asked: its id, or its address from a log line; NULL = not known',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int COMMENT 'number of the queue; NULL = only a log line tells of the move, and it does not say',
  requested_offset bigint NOT NULL COMMENT 'offset that the client asked for, or had committed before',
  corrected_offset bigint NOT NULL COMMENT 'newest offset that it was sent to, or has committed since',
  move_count bigint NOT NULL COMMENT 'how often within the window',
  first_moved_at timestamp NOT NULL COMMENT 'first time within the window',
  last_moved_at timestamp NOT NULL COMMENT 'last time within the window',
  origin string NOT NULL COMMENT 'what tells of it: event, else log, else snapshot'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'offset moves of the look-back window, each counted once, one row per (group, client, queue, requested offset)'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.invariant_results (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  invariant_id string NOT NULL COMMENT 'id, e.g. OG-Q01',
  table_name string NOT NULL COMMENT 'the table that was checked',
  violation_means string NOT NULL COMMENT 'corrupt or trouble',
  rows_checked bigint NOT NULL COMMENT 'rows that the invariant applies to',
  violations bigint NOT NULL COMMENT 'rows that violate it',
  examples array<string> NOT NULL COMMENT 'the first violating rows, as text'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per invariant and interval: what was checked and what was violated'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.quarantine (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  table_name string NOT NULL COMMENT 'table that the row was meant for',
  invariant_id string NOT NULL COMMENT 'the corrupt invariant that it breaks',
  row_key string NOT NULL COMMENT 'the row\'s key as text',
  row_json string NOT NULL COMMENT 'the whole row as JSON, so that it can be re-driven'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'rows left out of the facts because they cannot be right, with the reason'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
