-- Made of ../topic_facts.sql by `make facts-sql`: change that file.
WITH kept_of_topics AS (
  SELECT
    cluster,
    topic,
    TRY_CAST(SUM(queue_count) AS INT) AS queue_count,
    SUM(message_count) AS message_count,
    CASE WHEN SUM(seen_queue_count) = SUM(queue_count) THEN SUM(max_offset_total) END AS max_offset_total,
    MIN(counted_at) AS counted_at,
    MAX(last_update_at) AS last_update_at,
    CASE
      WHEN MAX(unreadable_queue_count) > 0 OR COUNT(unreadable_queue_count) = COUNT(*)
      THEN TRY_CAST(SUM(unreadable_queue_count) AS INT)
    END AS unreadable_queue_count,
    SUM(unreadable_message_count) AS unreadable_message_count,
    SUM(unwritten_message_count) AS unwritten_message_count,
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
    SUM(lag) AS lag,
    SUM(effective_lag) AS effective_lag,
    SUM(inflight) AS inflight,
    SUM(available) AS available,
    SUM(lost) AS lost,
    SUM(beyond_end) AS beyond_end,
    MAX(lag_ms) AS lag_ms,
    MAX(inflight_ms) AS inflight_ms,
    MAX(available_ms) AS available_ms,
    MAX(lost_ms) AS lost_ms,
    TRY_CAST(SUM(suspect_queue_count) AS INT) AS suspect_queue_count
  FROM pairs
  GROUP BY
    cluster,
    topic
), bounded AS (
  SELECT
    *,
    LIST_TRANSFORM(
      [
        max_offset_total,
        message_count,
        unreadable_message_count,
        unwritten_message_count,
        lag,
        effective_lag,
        inflight,
        available,
        lost,
        beyond_end
      ],
      LAMBDA x : CASE
        WHEN NOT x IS NULL
        THEN TRY_CAST(LEAST(GREATEST(x, -9223372036854775808), 9223372036854775807) AS BIGINT)
      END
    ) AS sums
  FROM kept_of_topics
  FULL OUTER JOIN consumed
    USING (cluster, topic)
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
      {'interval_start': earlier.interval_start, 'max_offset_total': max_offset_total, 'counted_at': counted_at, 'queue_count': queue_count, 'last_update_at': last_update_at}
    ) AS newest
  FROM topic_facts_history AS earlier
  INNER JOIN intervals
    USING (cluster)
  WHERE
    earlier.interval_start >= $oldest_compared
    AND earlier.interval_start < intervals.interval_start
    AND EPOCH_US(intervals.interval_start) - EPOCH_US(earlier.interval_start) <= $compared_within_us
  GROUP BY
    cluster,
    topic
), compared AS (
  SELECT
    *,
    CASE
      WHEN before.newest.queue_count = bounded.queue_count
      AND bounded.sums[1] >= before.newest.max_offset_total
      THEN bounded.sums[1] - before.newest.max_offset_total
    END AS grown,
    CASE
      WHEN before.newest.queue_count = bounded.queue_count
      AND bounded.sums[1] = before.newest.max_offset_total
      THEN bounded.last_update_at > GREATEST(before.newest.last_update_at, before.newest.counted_at)
      AND NOT before.newest.last_update_at IS NULL
    END AS made_again,
    (
      EPOCH_US(bounded.counted_at) - EPOCH_US(before.newest.counted_at)
    ) // 1000 AS grown_in_ms
  FROM bounded
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
  compared.queue_count,
  COALESCE(compared.consumer_group_count, 0) AS consumer_group_count,
  compared.sums[2] AS message_count,
  compared.sums[5] AS lag,
  compared.sums[6] AS effective_lag,
  compared.sums[7] AS inflight,
  compared.sums[8] AS available,
  compared.sums[9] AS lost,
  compared.sums[10] AS beyond_end,
  compared.lag_ms,
  compared.inflight_ms,
  compared.available_ms,
  compared.lost_ms,
  compared.suspect_queue_count,
  compared.sums[1] AS max_offset_total,
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
  compared.made_again,
  settings.broker_count,
  settings.read_queue_count,
  settings.write_queue_count,
  settings.read_write_differ,
  compared.unreadable_queue_count,
  compared.sums[3] AS unreadable_message_count,
  settings.unwritten_queue_count,
  compared.sums[4] AS unwritten_message_count,
  compared.unwritten_queues_used,
  settings.perm,
  usual.baseline_tps,
  usual.baseline_spread_tps,
  usual.baseline_week_count
FROM compared
INNER JOIN intervals
  USING (cluster)
LEFT JOIN settings
  USING (cluster, topic)
LEFT JOIN put_rates
  USING (cluster, topic)
LEFT JOIN usual
  USING (cluster, topic)
