-- `broker_facts`: one row per replica; what queues have in all stands on the master's.
WITH
-- Of the newest earlier interval that saw the replica, if it is not too old to be compared with
before AS (
  SELECT
    cluster,
    broker_name,
    broker_id,
    MAX(STRUCT(earlier.interval_start, commit_log_max_offset, read_at)) AS newest
  FROM broker_facts_history AS earlier
  INNER JOIN intervals USING (cluster)
  WHERE
    earlier.interval_start >= :oldest_compared
    AND earlier.interval_start < intervals.interval_start
    AND UNIX_MICROS(intervals.interval_start) - UNIX_MICROS(earlier.interval_start) <= :compared_within_us
  GROUP BY cluster, broker_name, broker_id
),

-- Lines of replicas' own logs within the look-back window, each once however often read: of slaves that could not take
-- over offsets, topics, groups or the commit log (`logs.broker`), of requests that were thrown away, and of disks that
-- could not be read (`logs.store`)
lines AS (
  SELECT DISTINCT
    line.cluster,
    line.broker_name,
    line.broker_id,
    at,
    position,
    now,
    line.kind,
    CASE
      WHEN kind = 'slave_diverged' THEN 'CommitLog'
      WHEN kind = 'slave_not_synchronized' THEN GET_JSON_OBJECT(fields_json, '$.what')
    END AS what
  FROM log_events_history AS line
  INNER JOIN intervals
    ON
      intervals.cluster = line.cluster
      AND intervals.interval_start >= line.interval_start
      AND UNIX_MICROS(intervals.now) - UNIX_MICROS(line.at) <= :log_window_us
  WHERE
    line.interval_start BETWEEN :oldest_log_interval AND :interval_start
    AND (
      line.kind IN ('requests_dropped', 'disk_unreadable')
      OR (line.kind IN ('slave_not_synchronized', 'slave_diverged') AND broker_id <> 0)
    )
),

-- A spell of lines about one thing ends with a longer silence than :sync_silence_us. What fails once, as when a master
-- is started again, is tried again within a minute: only a spell that goes on, and has lasted, tells of something.
failures AS (
  SELECT
    *,
    UNIX_MICROS(at) - UNIX_MICROS(
      LAG(at) OVER (PARTITION BY cluster, broker_name, broker_id, what ORDER BY at, position)
    ) AS silence_us
  FROM lines
  WHERE what IS NOT NULL
),

in_spells AS (
  SELECT
    *,
    MAX(CASE WHEN silence_us > :sync_silence_us THEN at END) OVER (
      PARTITION BY cluster, broker_name, broker_id, what
    ) AS spell_began_at
  FROM failures
),

spells AS (
  SELECT
    cluster,
    broker_name,
    broker_id,
    what,
    COUNT(*) AS line_count,
    MIN(at) AS first_at,
    MAX(at) AS last_at
  FROM in_spells
  WHERE spell_began_at IS NULL OR at >= spell_began_at
  GROUP BY cluster, broker_name, broker_id, what
  HAVING
    COUNT(*) >= :least_sync_lines
    AND UNIX_MICROS(MAX(at)) - UNIX_MICROS(MIN(at)) >= :sync_lasts_us
    AND UNIX_MICROS(MAX(now)) - UNIX_MICROS(MAX(at)) <= :sync_silence_us
),

failing AS (
  SELECT
    cluster,
    broker_name,
    broker_id,
    CAST(SUM(line_count) AS BIGINT) AS sync_failure_count,
    MIN(first_at) AS sync_first_failed_at,
    MAX(last_at) AS sync_last_failed_at,
    ARRAY_JOIN(COALESCE(SORT_ARRAY(COLLECT_LIST(what)), ARRAY()), ', ') AS sync_failed_what
  FROM spells
  GROUP BY cluster, broker_name, broker_id
),

said AS (
  SELECT
    cluster,
    broker_name,
    broker_id,
    NULLIF(COUNT(CASE WHEN kind = 'requests_dropped' THEN 1 END), 0) AS dropped_request_count,
    MIN(CASE WHEN kind = 'requests_dropped' THEN at END) AS dropped_first_at,
    MAX(CASE WHEN kind = 'requests_dropped' THEN at END) AS dropped_last_at,
    MAX(CASE WHEN kind = 'disk_unreadable' THEN at END) AS disk_unreadable_at
  FROM lines
  GROUP BY cluster, broker_name, broker_id
),

bounded AS (
  SELECT
    *,
    -- no more than a column holds; CASE, because GREATEST and LEAST skip what is unknown
    TRANSFORM(
      ARRAY(message_count, lag, effective_lag, inflight, available, lost, beyond_end),
      x -> CASE
        WHEN x IS NOT NULL THEN CAST(LEAST(GREATEST(x, -9223372036854775808), 9223372036854775807) AS BIGINT)
      END
    ) AS sums
  FROM replicas
)

SELECT
  cluster,
  intervals.interval_start,
  broker_name,
  broker_id,
  listed,
  answered,
  failure,
  CAST(consumed_queue_count AS INT) AS consumed_queue_count,
  CAST(unknown_queue_count AS INT) AS unknown_queue_count,
  CAST(suspect_queue_count AS INT) AS suspect_queue_count,
  CAST(topic_queue_count AS INT) AS topic_queue_count,
  sums[0] AS message_count,
  sums[1] AS lag,
  sums[2] AS effective_lag,
  sums[3] AS inflight,
  sums[4] AS available,
  sums[5] AS lost,
  sums[6] AS beyond_end,
  lag_ms,
  inflight_ms,
  available_ms,
  lost_ms,
  slave_count,
  version,
  role,
  active,
  boot_at,
  address,
  master_changed_at,
  put_tps,
  get_tps,
  commit_log_min_offset,
  bounded.commit_log_max_offset,
  -- Bytes; not known when it went back (recreated)
  CASE
    WHEN bounded.commit_log_max_offset >= newest.commit_log_max_offset
      THEN bounded.commit_log_max_offset - newest.commit_log_max_offset
  END AS commit_log_growth,
  CASE
    WHEN bounded.commit_log_max_offset >= newest.commit_log_max_offset
      THEN (UNIX_MICROS(bounded.read_at) - UNIX_MICROS(newest.read_at)) DIV 1000
  END AS commit_log_growth_ms,
  commit_log_disk_ratio,
  earliest_message_at,
  dispatch_behind_bytes,
  slave_behind_bytes,
  replicated_at,
  sync_failure_count,
  sync_first_failed_at,
  sync_last_failed_at,
  sync_failed_what,
  dropped_request_count,
  dropped_first_at,
  dropped_last_at,
  disk_unreadable_at,
  page_cache_lock_time_ms,
  send_queue_size,
  send_queue_head_wait_ms,
  pull_queue_size,
  pull_queue_head_wait_ms,
  clock_ahead_ms,
  half_message_count,
  half_growing_since,
  half_late_count,
  half_late_growth,
  half_late_since,
  half_deleted_count,
  half_deleted_growth,
  given_up_growth,
  delayed_message_count,
  delayed_late_count,
  delayed_late_growth,
  delayed_late_since,
  delayed_deleted_count,
  delayed_deleted_growth,
  timer_message_count,
  timer_unread_count,
  timer_behind_ms,
  slave_read_enable,
  file_reserved_time_hours,
  delete_when,
  disk_max_used_space_ratio,
  disk_clean_forcibly_ratio,
  clean_file_forcibly,
  commit_log_file_bytes,
  commit_log_disk_bytes,
  message_store_plug_in,
  access_message_in_memory_max_ratio,
  broker_permission,
  rocketmq_cluster,
  bounded.read_at
FROM bounded
INNER JOIN intervals USING (cluster)
LEFT JOIN before USING (cluster, broker_name, broker_id)
LEFT JOIN said USING (cluster, broker_name, broker_id)
LEFT JOIN failing USING (cluster, broker_name, broker_id)
