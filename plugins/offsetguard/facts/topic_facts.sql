-- `topic_facts`: one row per topic that has a queue, or that a group has a row for.
WITH kept_of_topics AS (
  SELECT
    cluster,
    topic,
    CAST(SUM(queue_count) AS INT) AS queue_count,
    CASE WHEN SUM(message_count) IS NOT NULL
        THEN CAST(LEAST(GREATEST(SUM(message_count), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS message_count,
    -- Grows with every message; not known when a queue was not seen
    CASE WHEN SUM(seen_queue_count) = SUM(queue_count)
        THEN CAST(LEAST(GREATEST(SUM(max_offset_total), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS max_offset_total,
    MIN(counted_at) AS counted_at,
    MAX(last_update_at) AS last_update_at,
    CAST(SUM(unreadable_queue_count) AS INT) AS unreadable_queue_count,
    CASE WHEN SUM(unreadable_message_count) IS NOT NULL THEN CAST(
          LEAST(GREATEST(SUM(unreadable_message_count), -9223372036854775808), 9223372036854775807) AS BIGINT
        )
    END AS unreadable_message_count,
    CASE WHEN SUM(unwritten_message_count) IS NOT NULL THEN CAST(
          LEAST(GREATEST(SUM(unwritten_message_count), -9223372036854775808), 9223372036854775807) AS BIGINT
        )
    END AS unwritten_message_count,
    CASE
      WHEN MAX(unwritten_queues_used) THEN TRUE
      WHEN SUM(unseen_unwritten_count) = 0 THEN MAX(unwritten_queues_used)
    END AS unwritten_queues_used
  FROM kept
  GROUP BY cluster, topic
),

consumed AS (
  SELECT
    cluster,
    topic,
    CAST(COUNT(DISTINCT consumer_group) AS INT) AS consumer_group_count,
    CASE WHEN SUM(lag) IS NOT NULL
        THEN CAST(LEAST(GREATEST(SUM(lag), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS lag,
    CASE WHEN SUM(effective_lag) IS NOT NULL
        THEN CAST(LEAST(GREATEST(SUM(effective_lag), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS effective_lag,
    CASE WHEN SUM(inflight) IS NOT NULL
        THEN CAST(LEAST(GREATEST(SUM(inflight), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS inflight,
    CASE WHEN SUM(available) IS NOT NULL
        THEN CAST(LEAST(GREATEST(SUM(available), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS available,
    CASE WHEN SUM(lost) IS NOT NULL
        THEN CAST(LEAST(GREATEST(SUM(lost), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS lost,
    MAX(lag_ms) AS lag_ms,
    MAX(inflight_ms) AS inflight_ms,
    MAX(available_ms) AS available_ms,
    MAX(lost_ms) AS lost_ms,
    CAST(SUM(suspect_queue_count) AS INT) AS suspect_queue_count
  FROM pairs
  GROUP BY cluster, topic
),

-- What all masters together say of a topic; its kind follows from the name, so all say the same
settings AS (
  SELECT
    cluster,
    topic,
    MAX(topic_kind) AS topic_kind,
    CAST(COUNT(*) AS INT) AS broker_count,
    CAST(SUM(read_queue_nums) AS INT) AS read_queue_count,
    CAST(SUM(write_queue_nums) AS INT) AS write_queue_count,
    MAX(read_queue_nums <> write_queue_nums) AS read_write_differ,
    CAST(SUM(GREATEST(read_queue_nums - write_queue_nums, 0)) AS INT) AS unwritten_queue_count,
    BIT_AND(perm) AS perm
  FROM topic_settings
  GROUP BY cluster, topic
),

-- What masters count as written; rates are added up as decimals, so that no order of rows changes them
put_rates AS (
  SELECT
    cluster,
    topic,
    CAST(SUM(TRY_CAST(tps AS DECIMAL(28, 6))) AS DOUBLE) AS put_tps,
    COUNT(*) AS put_broker_count
  FROM broker_stats
  WHERE stats_name = 'TOPIC_PUT_NUMS' AND broker_id = 0
  GROUP BY cluster, topic
),

-- Of the newest earlier interval that saw the topic, if it is not too old to be compared with
before AS (
  SELECT
    cluster,
    topic,
    MAX(STRUCT(interval_start, max_offset_total, counted_at, queue_count)) AS newest
  FROM topic_facts_history
  WHERE interval_start >= :last_seen_since AND interval_start < :interval_start
  GROUP BY cluster, topic
),

compared AS (
  SELECT
    *,
    -- Nothing is known when the topic's queues changed, and when it went back (recreated)
    CASE
      WHEN before.newest.queue_count = kept_of_topics.queue_count
        AND kept_of_topics.max_offset_total >= before.newest.max_offset_total
        THEN kept_of_topics.max_offset_total - before.newest.max_offset_total
    END AS grown,
    (UNIX_MICROS(kept_of_topics.counted_at) - UNIX_MICROS(before.newest.counted_at)) DIV 1000 AS grown_in_ms
  FROM kept_of_topics
  LEFT JOIN before USING (cluster, topic)
),

usual AS (
  SELECT * FROM baselines
  WHERE consumer_group IS NULL
)

SELECT
  cluster,
  intervals.interval_start,
  topic,
  settings.topic_kind,
  COALESCE(compared.queue_count, 0) AS queue_count,
  COALESCE(consumed.consumer_group_count, 0) AS consumer_group_count,
  compared.message_count,
  consumed.lag,
  consumed.effective_lag,
  consumed.inflight,
  consumed.available,
  consumed.lost,
  consumed.lag_ms,
  consumed.inflight_ms,
  consumed.available_ms,
  consumed.lost_ms,
  consumed.suspect_queue_count,
  compared.max_offset_total,
  compared.counted_at,
  CASE WHEN compared.grown_in_ms > 0
      THEN CAST(compared.grown AS DOUBLE) * 1000.0 / CAST(compared.grown_in_ms AS DOUBLE)
  END AS produce_tps,
  -- Not known when one of the topic's masters was not asked
  CASE WHEN put_rates.put_broker_count >= settings.broker_count THEN put_rates.put_tps END AS put_tps,
  compared.last_update_at,
  settings.broker_count,
  settings.read_queue_count,
  settings.write_queue_count,
  settings.read_write_differ,
  CASE WHEN settings.broker_count IS NOT NULL THEN compared.unreadable_queue_count END AS unreadable_queue_count,
  compared.unreadable_message_count,
  settings.unwritten_queue_count,
  compared.unwritten_message_count,
  compared.unwritten_queues_used,
  settings.perm,
  usual.baseline_tps,
  usual.baseline_spread_tps,
  usual.baseline_week_count
FROM compared
FULL OUTER JOIN consumed USING (cluster, topic)
INNER JOIN intervals USING (cluster)
LEFT JOIN settings USING (cluster, topic)
LEFT JOIN put_rates USING (cluster, topic)
LEFT JOIN usual USING (cluster, topic)
