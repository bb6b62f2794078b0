-- Made of ../baselines.sql by `make facts-sql`: change that file.
WITH newest AS (
  SELECT
    cluster,
    topic,
    consumer_group,
    MAX(
      {'interval_start': interval_start, 'mean_tps': mean_tps, 'spread_tps': spread_tps, 'week_count': week_count}
    ) AS row
  FROM traffic_baselines_history
  WHERE
    interval_start BETWEEN $oldest_baseline AND $newest_baseline
    AND hour_of_week = $hour_of_week
  GROUP BY
    cluster,
    topic,
    consumer_group
)
SELECT
  cluster,
  topic,
  consumer_group,
  row.mean_tps AS baseline_tps,
  row.spread_tps AS baseline_spread_tps,
  row.week_count AS baseline_week_count
FROM newest
