-- The replicas that the name server lists, and masters that have queues and are not listed (state files).
--
-- A master has the sums over its queues: those that groups consume, each once for every group, and those that topics
-- have. Sums of whole numbers are decimals: brokers bound them, the cluster adds them up first.
WITH consumed AS (
  SELECT
    cluster,
    broker_name,
    SUM(queue_count) AS consumed_queue_count,
    SUM(unknown_queue_count) AS unknown_queue_count,
    SUM(suspect_queue_count) AS suspect_queue_count,
    SUM(lag) AS lag,
    SUM(effective_lag) AS effective_lag,
    SUM(inflight) AS inflight,
    SUM(available) AS available,
    SUM(lost) AS lost,
    SUM(beyond_end) AS beyond_end,
    MAX(lag_ms) AS lag_ms,
    MAX(inflight_ms) AS inflight_ms,
    MAX(available_ms) AS available_ms,
    MAX(lost_ms) AS lost_ms
  FROM pairs
  GROUP BY cluster, broker_name
),

kept_of_brokers AS (
  SELECT
    cluster,
    broker_name,
    SUM(queue_count) AS topic_queue_count,
    SUM(message_count) AS message_count
  FROM kept
  GROUP BY cluster, broker_name
),

queues AS (
  SELECT
    *,
    CAST(0 AS BIGINT) AS broker_id
  FROM consumed
  FULL OUTER JOIN kept_of_brokers USING (cluster, broker_name)
),

listed AS (
  SELECT
    *,
    TRUE AS listed
  FROM broker_snapshots
)

SELECT
  cluster,
  broker_name,
  broker_id,
  COALESCE(listed.listed, FALSE) AS listed,
  CASE
    WHEN broker_id = 0 AND listed.listed
      THEN
        CAST(COUNT(CASE WHEN broker_id <> 0 THEN 1 END) OVER (
          PARTITION BY cluster, broker_name
        ) AS INT)
  END AS slave_count,
  queues.consumed_queue_count,
  queues.unknown_queue_count,
  queues.suspect_queue_count,
  queues.topic_queue_count,
  queues.message_count,
  queues.lag,
  queues.effective_lag,
  queues.inflight,
  queues.available,
  queues.lost,
  queues.beyond_end,
  queues.lag_ms,
  queues.inflight_ms,
  queues.available_ms,
  queues.lost_ms,
  listed.answered,
  listed.failure,
  listed.version,
  listed.role,
  listed.active,
  listed.boot_at,
  listed.address,
  listed.master_changed_at,
  listed.put_tps,
  listed.get_transferred_tps AS get_tps,
  listed.commit_log_min_offset,
  listed.commit_log_max_offset,
  listed.commit_log_disk_ratio,
  listed.earliest_message_at,
  listed.dispatch_behind_bytes,
  listed.slave_behind_bytes,
  listed.replicated_at,
  listed.page_cache_lock_time_ms,
  listed.send_queue_size,
  listed.send_queue_head_wait_ms,
  listed.pull_queue_size,
  listed.pull_queue_head_wait_ms,
  listed.clock_ahead_ms,
  listed.half_message_count,
  listed.half_growing_since,
  listed.half_late_count,
  listed.half_late_growth,
  listed.half_late_since,
  listed.half_deleted_count,
  listed.half_deleted_growth,
  listed.given_up_growth,
  listed.delayed_message_count,
  listed.delayed_late_count,
  listed.delayed_late_growth,
  listed.delayed_late_since,
  listed.delayed_deleted_count,
  listed.delayed_deleted_growth,
  listed.timer_message_count,
  listed.timer_unread_count,
  listed.timer_behind_ms,
  listed.slave_read_enable,
  listed.file_reserved_time_hours,
  listed.delete_when,
  listed.disk_max_used_space_ratio,
  listed.disk_clean_forcibly_ratio,
  listed.clean_file_forcibly,
  listed.commit_log_file_bytes,
  listed.commit_log_disk_bytes,
  listed.message_store_plug_in,
  listed.access_message_in_memory_max_ratio,
  listed.broker_permission,
  listed.rocketmq_cluster,
  listed.read_at
FROM listed
FULL OUTER JOIN queues USING (cluster, broker_name, broker_id)
