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
  origin string NOT NULL COMMENT 'where the offsets come from: broker'
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
  online_client_count int COMMENT 'connected clients of the group; 0 = offline; NULL = could not be seen',
  message_model string COMMENT 'CLUSTERING or BROADCASTING; NULL = no client online to tell',
  consume_type string COMMENT 'CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP; NULL = unknown',
  declared_orderly boolean COMMENT 'the configuration says that the group consumes orderly',
  lock_interval_ms bigint COMMENT 'declared client setting rocketmq.client.rebalance.lockInterval, ms',
  lock_max_live_time_ms bigint COMMENT 'declared broker setting rocketmq.broker.rebalance.lockMaxLiveTime, ms'
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
  client_address string COMMENT 'ip:port as the broker sees it',
  language string COMMENT 'client language',
  version int COMMENT 'MQVersion ordinal of the client',
  subscriptions array<string> COMMENT 'the group\'s subscriptions on this broker, `topic expression`'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per connected client of a group and broker that sees it'
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
  role string COMMENT 'broker setting brokerRole: ASYNC_MASTER, SYNC_MASTER or SLAVE',
  slave_read_enable boolean COMMENT 'broker setting slaveReadEnable',
  file_reserved_time_hours int COMMENT 'broker setting fileReservedTime, hours',
  delete_when string COMMENT 'broker setting deleteWhen, hour of day',
  disk_max_used_space_ratio int COMMENT 'broker setting diskMaxUsedSpaceRatio, percent',
  read_at timestamp COMMENT 'when the broker answered'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per broker replica that the name server lists'
TBLPROPERTIES ('format-version' = '2', 'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true');
CREATE TABLE IF NOT EXISTS offsetguard.facts.offset_moves (
  cluster string NOT NULL COMMENT 'name of the cluster in config/offsetguard.yml',
  interval_start timestamp NOT NULL COMMENT 'start of the interval that the row belongs to, UTC',
  event_broker_name string NOT NULL COMMENT 'broker that stored the event',
  event_offset bigint NOT NULL COMMENT 'offset of the event in its topic: identifies it for ever',
  moved_at timestamp NOT NULL COMMENT 'store time of the event',
  consumer_group string NOT NULL COMMENT 'consumer group',
  client_id string COMMENT 'the client that asked; NULL: the event does not say',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int NOT NULL COMMENT 'number of the queue within (topic, broker)',
  requested_offset bigint NOT NULL COMMENT 'offset that the client asked for',
  corrected_offset bigint NOT NULL COMMENT 'offset that the broker sent it to',
  origin string NOT NULL COMMENT 'event'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'one row per OFFSET_MOVED_EVENT that a broker stored (4.x)'
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
  client_id string COMMENT 'the client that asked; NULL: the event does not say',
  topic string NOT NULL COMMENT 'topic; %RETRY% and %DLQ% keep their prefix',
  broker_name string NOT NULL COMMENT 'name shared by a master and its slaves',
  queue_id int NOT NULL COMMENT 'number of the queue within (topic, broker)',
  requested_offset bigint NOT NULL COMMENT 'offset that the client asked for',
  corrected_offset bigint NOT NULL COMMENT 'newest offset that the broker sent it to',
  move_count bigint NOT NULL COMMENT 'how often within the window',
  first_moved_at timestamp NOT NULL COMMENT 'first time within the window',
  last_moved_at timestamp NOT NULL COMMENT 'last time within the window'
) USING iceberg
PARTITIONED BY (days(interval_start), cluster)
COMMENT 'offset moves of the look-back window, one row per (group, client, queue, requested offset)'
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
