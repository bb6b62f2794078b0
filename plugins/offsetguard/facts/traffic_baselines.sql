-- `traffic_baselines`: when an hour has passed, its traffic joins what the weeks before knew of its hour of the week.
--
-- The hour's traffic comes from two counters: now, and in the hour's first minutes (:hour_start, :hour_first_until).
-- Mean and variance are weighted: plain ones over as few weeks as :remembered_weeks; of more the newest counts as one
-- of so many, so that old habits fade (West, 1979: updating mean and variance by increments).
WITH totals AS (
  -- What was written to each topic; not known when a queue was not seen
  SELECT
    cluster,
    topic,
    CAST(NULL AS STRING) AS consumer_group,
    CASE WHEN SUM(seen_queue_count) = SUM(queue_count) THEN SUM(max_offset_total) END AS total,
    MIN(counted_at) AS counted_at
  FROM kept
  GROUP BY cluster, topic
  UNION ALL
  -- What each group committed in each topic
  SELECT
    cluster,
    topic,
    consumer_group,
    CASE WHEN SUM(committed_queue_count) = SUM(queue_count) THEN SUM(consumer_offset_total) END AS total,
    MIN(counted_at) AS counted_at
  FROM pairs
  GROUP BY cluster, topic, consumer_group
),

seen_at_first AS (
  SELECT
    cluster,
    topic,
    CAST(NULL AS STRING) AS consumer_group,
    STRUCT(interval_start, CAST(max_offset_total AS BIGINT) AS total, counted_at) AS row
  FROM topic_facts_history
  WHERE interval_start >= :hour_start AND interval_start < :hour_first_until
  UNION ALL
  SELECT
    cluster,
    topic,
    consumer_group,
    STRUCT(interval_start, CAST(consumer_offset_total AS BIGINT) AS total, counted_at) AS row
  FROM group_facts_history
  WHERE interval_start >= :hour_start AND interval_start < :hour_first_until
),

first_of_hour AS (
  SELECT
    cluster,
    topic,
    consumer_group,
    MIN(row) AS row
  FROM seen_at_first
  GROUP BY cluster, topic, consumer_group
),

weeks_before AS (
  SELECT
    cluster,
    topic,
    consumer_group,
    MAX(STRUCT(interval_start, mean_tps, spread_tps, week_count)) AS row
  FROM traffic_baselines_history
  WHERE
    interval_start BETWEEN :oldest_week_before AND :newest_week_before
    AND hour_of_week = :passed_hour_of_week
  GROUP BY cluster, topic, consumer_group
),

passed AS (
  SELECT
    totals.cluster,
    totals.topic,
    totals.consumer_group,
    -- Messages per second; not known when the counter went back (recreated), or no time has passed
    CAST(totals.total - first_of_hour.row.total AS DOUBLE) * 1000.0 / CAST(
      (UNIX_MICROS(totals.counted_at) - UNIX_MICROS(first_of_hour.row.counted_at)) DIV 1000 AS DOUBLE
    ) AS hour_tps,
    weeks_before.row AS before
  FROM totals
  INNER JOIN first_of_hour
    ON
      first_of_hour.cluster = totals.cluster
      AND first_of_hour.topic = totals.topic
      AND first_of_hour.consumer_group IS NOT DISTINCT FROM totals.consumer_group
      AND first_of_hour.row.total <= totals.total
      AND UNIX_MICROS(totals.counted_at) - UNIX_MICROS(first_of_hour.row.counted_at) >= 1000
  LEFT JOIN weeks_before
    ON
      weeks_before.cluster = totals.cluster
      AND weeks_before.topic = totals.topic
      AND weeks_before.consumer_group IS NOT DISTINCT FROM totals.consumer_group
),

weighted AS (
  SELECT
    *,
    GREATEST(1.0 / CAST(before.week_count + 1 AS DOUBLE), 1.0 / CAST(:remembered_weeks AS DOUBLE)) AS weight,
    hour_tps - before.mean_tps AS difference
  FROM passed
)

SELECT
  cluster,
  intervals.interval_start,
  topic,
  consumer_group,
  :passed_hour_of_week AS hour_of_week,
  :hour_start AS hour_start_at,
  hour_tps,
  CASE WHEN before.week_count IS NULL THEN hour_tps ELSE before.mean_tps + weight * difference END AS mean_tps,
  CASE
    WHEN before.week_count IS NULL THEN CAST(0 AS DOUBLE)
    ELSE SQRT((1.0 - weight) * (before.spread_tps * before.spread_tps + difference * (weight * difference)))
  END AS spread_tps,
  CASE WHEN before.week_count IS NULL THEN 1 ELSE before.week_count + 1 END AS week_count
FROM weighted
INNER JOIN intervals USING (cluster)
