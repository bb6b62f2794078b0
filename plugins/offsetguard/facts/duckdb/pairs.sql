-- Made of ../pairs.sql by `make facts-sql`: change that file.
SELECT
  cluster,
  consumer_group,
  topic,
  broker_name,
  COUNT(*) AS queue_count,
  COUNT(CASE WHEN max_offset IS NULL THEN 1 END) AS unknown_queue_count,
  COUNT(CASE WHEN never_committed THEN 1 END) AS never_committed_queue_count,
  COUNT(CASE WHEN suspect THEN 1 END) AS suspect_queue_count,
  COUNT(consumer_offset) AS committed_queue_count,
  SUM(TRY_CAST(consumer_offset AS DECIMAL(28, 0))) AS consumer_offset_total,
  MIN(consumer_offset_read_at) AS counted_at,
  SUM(TRY_CAST(CASE WHEN lag < 0 THEN 0 ELSE lag END AS DECIMAL(28, 0))) AS lag,
  SUM(
    TRY_CAST(CASE WHEN effective_lag < 0 THEN 0 ELSE effective_lag END AS DECIMAL(28, 0))
  ) AS effective_lag,
  SUM(TRY_CAST(CASE WHEN inflight < 0 THEN 0 ELSE inflight END AS DECIMAL(28, 0))) AS inflight,
  SUM(TRY_CAST(CASE WHEN available < 0 THEN 0 ELSE available END AS DECIMAL(28, 0))) AS available,
  SUM(TRY_CAST(lost AS DECIMAL(28, 0))) AS lost,
  SUM(TRY_CAST(beyond_end AS DECIMAL(28, 0))) AS beyond_end,
  MAX(lag_ms) AS lag_ms,
  MAX(inflight_ms) AS inflight_ms,
  MAX(available_ms) AS available_ms,
  MAX(lost_ms) AS lost_ms,
  TRY_CAST(SUM(TRY_CAST(produce_tps AS DECIMAL(28, 6))) AS DOUBLE) AS produce_tps,
  TRY_CAST(SUM(TRY_CAST(consume_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_tps
FROM queue_figures
GROUP BY
  cluster,
  consumer_group,
  topic,
  broker_name
