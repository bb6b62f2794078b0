-- `topic_facts`: one row per topic that has a queue, or that a group has a row for.
WITH kept_of_topics AS (
  SELECT
    cluster,
    topic,
    CAST(SUM(queue_count) AS INT) AS queue_count,
    SUM(message_count) AS message_count,
    -- Grows with every message; not known when a queue was not seen
    CASE WHEN SUM(seen_queue_count) = SUM(queue_count) THEN SUM(max_offset_total) END AS max_offset_total,
    MIN(counted_at) AS counted_at,
    MAX(last_update_at) AS last_update_at,
    -- Those that are known; that there are none, only where each broker's settings are
    CASE
      WHEN MAX(unreadable_queue_count) > 0 OR COUNT(unreadable_queue_count) = COUNT(*)
        THEN CAST(SUM(unreadable_queue_count) AS INT)
    END AS unreadable_queue_count,
    SUM(unreadable_message_count) AS unreadable_message_count,
    SUM(unwritten_message_count) AS unwritten_message_count,
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
    CAST(SUM(suspect_queue_count) AS INT) AS suspect_queue_count
  FROM pairs
  GROUP BY cluster, topic
),

bounded AS (
  SELECT
    *,
    -- no more than a column holds; CASE, because GREATEST and LEAST skip what is unknown
    TRANSFORM(
      ARRAY(
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
      ),
      x -> CASE
        WHEN x IS NOT NULL THEN CAST(LEAST(GREATEST(x, -9223372036854775808), 9223372036854775807) AS BIGINT)
      END
    ) AS sums
  FROM kept_of_topics
  FULL OUTER JOIN consumed USING (cluster, topic)
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
    MAX(STRUCT(earlier.interval_start, max_offset_total, counted_at, queue_count, last_update_at)) AS newest
  FROM topic_facts_history AS earlier
  INNER JOIN intervals USING (cluster)
  WHERE
    earlier.interval_start >= :oldest_compared
    AND earlier.interval_start < intervals.interval_start
    AND UNIX_MICROS(intervals.interval_start) - UNIX_MICROS(earlier.interval_start) <= :compared_within_us
  GROUP BY cluster, topic
),

compared AS (
  SELECT
    *,
    -- Nothing is known when the topic's queues changed, and when it went back (recreated)
    CASE
      WHEN before.newest.queue_count = bounded.queue_count AND bounded.sums[0] >= before.newest.max_offset_total
        THEN bounded.sums[0] - before.newest.max_offset_total
    END AS grown,
    -- What was written since, and the end is where it was: it was made again up to there. The newest message of before
    -- is known, and the one of now came after that look: no clock that is off can feign both.
    CASE
      WHEN before.newest.queue_count = bounded.queue_count AND bounded.sums[0] = before.newest.max_offset_total
        THEN
          bounded.last_update_at > GREATEST(before.newest.last_update_at, before.newest.counted_at)
          AND before.newest.last_update_at IS NOT NULL
    END AS made_again,
    (UNIX_MICROS(bounded.counted_at) - UNIX_MICROS(before.newest.counted_at)) DIV 1000 AS grown_in_ms
  FROM bounded
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
  compared.queue_count,
  COALESCE(compared.consumer_group_count, 0) AS consumer_group_count,
  compared.sums[1] AS message_count,
  compared.sums[4] AS lag,
  compared.sums[5] AS effective_lag,
  compared.sums[6] AS inflight,
  compared.sums[7] AS available,
  compared.sums[8] AS lost,
  compared.sums[9] AS beyond_end,
  compared.lag_ms,
  compared.inflight_ms,
  compared.available_ms,
  compared.lost_ms,
  compared.suspect_queue_count,
  compared.sums[0] AS max_offset_total,
  compared.counted_at,
  CASE
    WHEN compared.grown_in_ms > 0
      THEN CAST(compared.grown AS DOUBLE) * 1000.0 / CAST(compared.grown_in_ms AS DOUBLE)
  END AS produce_tps,
  -- Not known when one of the topic's masters was not asked
  CASE WHEN put_rates.put_broker_count >= settings.broker_count THEN put_rates.put_tps END AS put_tps,
  compared.last_update_at,
  compared.made_again,
  settings.broker_count,
  settings.read_queue_count,
  settings.write_queue_count,
  settings.read_write_differ,
  compared.unreadable_queue_count,
  compared.sums[2] AS unreadable_message_count,
  settings.unwritten_queue_count,
  compared.sums[3] AS unwritten_message_count,
  compared.unwritten_queues_used,
  settings.perm,
  usual.baseline_tps,
  usual.baseline_spread_tps,
  usual.baseline_week_count
FROM compared
INNER JOIN intervals USING (cluster)
LEFT JOIN settings USING (cluster, topic)
LEFT JOIN put_rates USING (cluster, topic)
LEFT JOIN usual USING (cluster, topic)
