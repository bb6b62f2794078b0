-- What traffic was at the interval's hour of the week, by topic, and by group in a topic (its commits): the newest of
-- the rows from :oldest_baseline to :newest_baseline, each of which holds all weeks before it (`traffic_baselines`).
WITH newest AS (
  SELECT
    cluster,
    topic,
    consumer_group,
    MAX(STRUCT(interval_start, mean_tps, spread_tps, week_count)) AS row
  FROM traffic_baselines_history
  WHERE interval_start BETWEEN :oldest_baseline AND :newest_baseline AND hour_of_week = :hour_of_week
  GROUP BY cluster, topic, consumer_group
)

SELECT
  cluster,
  topic,
  consumer_group,  -- NULL = what is written to the topic
  row.mean_tps AS baseline_tps,
  row.spread_tps AS baseline_spread_tps,
  row.week_count AS baseline_week_count
FROM newest
