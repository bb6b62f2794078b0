-- Made of ../traffic_baselines.sql by `make facts-sql`: change that file.
WITH totals AS (
  SELECT
    cluster,
    topic,
    TRY_CAST(NULL AS TEXT) AS consumer_group,
    CASE WHEN SUM(seen_queue_count) = SUM(queue_count) THEN SUM(max_offset_total) END AS total,
    MIN(counted_at) AS counted_at
  FROM kept
  GROUP BY
    cluster,
    topic
  UNION ALL
  SELECT
    cluster,
    topic,
    consumer_group,
    CASE
      WHEN SUM(committed_queue_count) = SUM(queue_count)
      THEN SUM(consumer_offset_total)
    END AS total,
    MIN(counted_at) AS counted_at
  FROM pairs
  GROUP BY
    cluster,
    topic,
    consumer_group
), seen_at_first AS (
  SELECT
    cluster,
    topic,
    TRY_CAST(NULL AS TEXT) AS consumer_group,
    {'interval_start': interval_start, 'total': TRY_CAST(max_offset_total AS BIGINT), 'counted_at': counted_at} AS row
  FROM topic_facts_history
  WHERE
    interval_start >= $hour_start AND interval_start < $hour_first_until
  UNION ALL
  SELECT
    cluster,
    topic,
    consumer_group,
    {'interval_start': interval_start, 'total': TRY_CAST(consumer_offset_total AS BIGINT), 'counted_at': counted_at} AS row
  FROM group_facts_history
  WHERE
    interval_start >= $hour_start AND interval_start < $hour_first_until
), first_of_hour AS (
  SELECT
    cluster,
    topic,
    consumer_group,
    MIN(row) AS row
  FROM seen_at_first
  GROUP BY
    cluster,
    topic,
    consumer_group
), weeks_before AS (
  SELECT
    cluster,
    topic,
    consumer_group,
    MAX(
      {'interval_start': interval_start, 'mean_tps': mean_tps, 'spread_tps': spread_tps, 'week_count': week_count}
    ) AS row
  FROM traffic_baselines_history
  WHERE
    interval_start BETWEEN $oldest_week_before AND $newest_week_before
    AND hour_of_week = $passed_hour_of_week
  GROUP BY
    cluster,
    topic,
    consumer_group
), passed AS (
  SELECT
    totals.cluster,
    totals.topic,
    totals.consumer_group,
    TRY_CAST(totals.total - first_of_hour.row.total AS DOUBLE) * 1000.0 / NULLIF(
      TRY_CAST((
        EPOCH_US(totals.counted_at) - EPOCH_US(first_of_hour.row.counted_at)
      ) // 1000 AS DOUBLE),
      0
    ) AS hour_tps,
    weeks_before.row AS before
  FROM totals
  INNER JOIN first_of_hour
    ON first_of_hour.cluster = totals.cluster
    AND first_of_hour.topic = totals.topic
    AND first_of_hour.consumer_group IS NOT DISTINCT FROM totals.consumer_group
    AND first_of_hour.row.total <= totals.total
    AND EPOCH_US(totals.counted_at) - EPOCH_US(first_of_hour.row.counted_at) >= 1000
  LEFT JOIN weeks_before
    ON weeks_before.cluster = totals.cluster
    AND weeks_before.topic = totals.topic
    AND weeks_before.consumer_group IS NOT DISTINCT FROM totals.consumer_group
), weighted AS (
  SELECT
    *,
    GREATEST(
      1.0 / NULLIF(TRY_CAST(before.week_count + 1 AS DOUBLE), 0),
      1.0 / NULLIF(TRY_CAST($remembered_weeks AS DOUBLE), 0)
    ) AS weight,
    hour_tps - before.mean_tps AS difference
  FROM passed
)
SELECT
  cluster,
  intervals.interval_start,
  topic,
  consumer_group,
  $passed_hour_of_week AS hour_of_week,
  $hour_start AS hour_start_at,
  hour_tps,
  CASE
    WHEN before.week_count IS NULL
    THEN hour_tps
    ELSE before.mean_tps + weight * difference
  END AS mean_tps,
  CASE
    WHEN before.week_count IS NULL
    THEN TRY_CAST(0 AS DOUBLE)
    ELSE SQRT(
      (
        1.0 - weight
      ) * (
        before.spread_tps * before.spread_tps + difference * (
          weight * difference
        )
      )
    )
  END AS spread_tps,
  CASE WHEN before.week_count IS NULL THEN 1 ELSE before.week_count + 1 END AS week_count
FROM weighted
INNER JOIN intervals
  USING (cluster)
