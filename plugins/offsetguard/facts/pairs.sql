-- Sums per consumer group, topic and broker: what every level above adds up again, in place of the queues themselves.
--
-- So the sums of all levels agree (the gate checks that of every published interval). Sums are over what is known, and
-- NULL when nothing is; ages are the greatest known. What waits in one queue is not less because another one's offset
-- lies beyond its end: a lag below 0 adds nothing, and what lies beyond ends is a sum of its own. Sums of whole numbers
-- are decimals here, which cannot overflow: whoever writes them bounds them. Rates are added up as decimals, so that no
-- order of rows changes them.
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
  SUM(CAST(consumer_offset AS DECIMAL(28, 0))) AS consumer_offset_total,
  MIN(consumer_offset_read_at) AS counted_at,
  SUM(CAST(CASE WHEN lag < 0 THEN 0 ELSE lag END AS DECIMAL(28, 0))) AS lag,
  SUM(CAST(CASE WHEN effective_lag < 0 THEN 0 ELSE effective_lag END AS DECIMAL(28, 0))) AS effective_lag,
  SUM(CAST(CASE WHEN inflight < 0 THEN 0 ELSE inflight END AS DECIMAL(28, 0))) AS inflight,
  SUM(CAST(CASE WHEN available < 0 THEN 0 ELSE available END AS DECIMAL(28, 0))) AS available,
  SUM(CAST(lost AS DECIMAL(28, 0))) AS lost,
  SUM(CAST(beyond_end AS DECIMAL(28, 0))) AS beyond_end,
  MAX(lag_ms) AS lag_ms,
  MAX(inflight_ms) AS inflight_ms,
  MAX(available_ms) AS available_ms,
  MAX(lost_ms) AS lost_ms,
  CAST(SUM(TRY_CAST(produce_tps AS DECIMAL(28, 6))) AS DOUBLE) AS produce_tps,
  CAST(SUM(TRY_CAST(consume_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_tps
FROM queue_figures
GROUP BY cluster, consumer_group, topic, broker_name
