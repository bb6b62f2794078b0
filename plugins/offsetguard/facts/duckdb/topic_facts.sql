-- Made of ../topic_facts.sql by `make facts-sql`: change that file.
WITH kept_of_topics AS (
  SELECT
    cluster,
    topic,
    TRY_CAST(SUM(queue_count) AS INT) AS queue_count,
    CASE
      WHEN NOT SUM(message_count) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(message_count), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS message_count,
    CASE
      WHEN SUM(seen_queue_count) = SUM(queue_count)
      THEN TRY_CAST(LEAST(GREATEST(SUM(max_offset_total), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS max_offset_total,
    MIN(counted_at) AS counted_at,
    MAX(last_update_at) AS last_update_at,
    TRY_CAST(SUM(unreadable_queue_count) AS INT) AS unreadable_queue_count,
    CASE
      WHEN NOT SUM(unreadable_message_count) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(unreadable_message_count), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS unreadable_message_count,
    CASE
      WHEN NOT SUM(unwritten_message_count) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(unwritten_message_count), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS unwritten_message_count,
    CASE
      WHEN MAX(unwritten_queues_used)
      THEN TRUE
      WHEN SUM(unseen_unwritten_count) = 0
      THEN MAX(unwritten_queues_used)
    END AS unwritten_queues_used
  FROM kept
  GROUP BY
    cluster,
    topic
), consumed AS (
  SELECT
    cluster,
    topic,
    TRY_CAST(COUNT(DISTINCT consumer_group) AS INT) AS consumer_group_count,
    CASE
      WHEN NOT SUM(lag) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(lag), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS lag,
    CASE
      WHEN NOT SUM(effective_lag) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(effective_lag), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS effective_lag,
    CASE
      WHEN NOT SUM(inflight) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(inflight), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS inflight,
    CASE
      WHEN NOT SUM(available) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(available), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS available,
    CASE
      WHEN NOT SUM(lost) IS NULL
      THEN TRY_CAST(LEAST(GREATEST(SUM(lost), -9223372036854775808), 9223372036854775807) AS BIGINT)
    END AS lost,
    MAX(lag_ms) AS lag_ms,
    MAX(inflight_ms) AS inflight_ms,
    MAX(available_ms) AS available_ms,
    MAX(lost_ms) AS lost_ms,
    TRY_CAST(SUM(suspect_queue_count) AS INT) AS suspect_queue_count
  FROM pairs
  GROUP BY
    cluster,
    topic
), settings AS (
  SELECT
    cluster,
    topic,
    MAX(topic_kind) AS topic_kind,
    TRY_CAST(COUNT(*) AS INT) AS broker_count,
    TRY_CAST(SUM(read_queue_nums) AS INT) AS read_queue_count,
    TRY_CAST(SUM(write_queue_nums) AS INT) AS write_queue_count,
    MAX(read_queue_nums <> write_queue_nums) AS read_write_differ,
    TRY_CAST(SUM(GREATEST(read_queue_nums - write_queue_nums, 0)) AS INT) AS unwritten_queue_count,
    BIT_AND(perm) AS perm
  FROM topic_settings
  GROUP BY
    cluster,
    topic
), put_rates AS (
  SELECT
    cluster,
    topic,
    TRY_CAST(SUM(TRY_CAST(tps AS DECIMAL(28, 6))) AS DOUBLE) AS put_tps,
    COUNT(*) AS put_broker_count
  FROM broker_stats
  WHERE
    stats_name = 'TOPIC_PUT_NUMS' AND broker_id = 0
  GROUP BY
    cluster,
    topic
), before AS (
  SELECT
    cluster,
    topic,
    MAX(
      {'interval_start': interval_start, 'max_offset_total': max_offset_total, 'counted_at': counted_at, 'queue_count': queue_count}
    ) AS newest
  FROM topic_facts_history
  WHERE
    interval_start >= $last_seen_since AND interval_start < $interval_start
  GROUP BY
    cluster,
    topic
), compared AS (
  SELECT
    *,
    CASE
      WHEN before.newest.queue_count = kept_of_topics.queue_count
      AND kept_of_topics.max_offset_total >= before.newest.max_offset_total
      THEN kept_of_topics.max_offset_total - before.newest.max_offset_total
    END AS grown,
    (
      EPOCH_US(kept_of_topics.counted_at) - EPOCH_US(before.newest.counted_at)
    ) // 1000 AS grown_in_ms
  FROM kept_of_topics
  LEFT JOIN before
    USING (cluster, topic)
), usual AS (
  SELECT
    *
  FROM baselines
  WHERE
    consumer_group IS NULL
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
  CASE
    WHEN compared.grown_in_ms > 0
    THEN TRY_CAST(compared.grown AS DOUBLE) * 1000.0 / NULLIF(TRY_CAST(compared.grown_in_ms AS DOUBLE), 0)
  END AS produce_tps,
  CASE
    WHEN put_rates.put_broker_count >= settings.broker_count
    THEN put_rates.put_tps
  END AS put_tps,
  compared.last_update_at,
  settings.broker_count,
  settings.read_queue_count,
  settings.write_queue_count,
  settings.read_write_differ,
  CASE
    WHEN NOT settings.broker_count IS NULL
    THEN compared.unreadable_queue_count
  END AS unreadable_queue_count,
  compared.unreadable_message_count,
  settings.unwritten_queue_count,
  compared.unwritten_message_count,
  compared.unwritten_queues_used,
  settings.perm,
  usual.baseline_tps,
  usual.baseline_spread_tps,
  usual.baseline_week_count
FROM compared
FULL OUTER JOIN consumed
  USING (cluster, topic)
INNER JOIN intervals
  USING (cluster)
LEFT JOIN settings
  USING (cluster, topic)
LEFT JOIN put_rates
  USING (cluster, topic)
LEFT JOIN usual
  USING (cluster, topic)
