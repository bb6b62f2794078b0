-- Sums per consumer group, topic and broker: what every level above adds up again, in place of the queues themselves.
--
-- So the sums of all levels agree (the gate checks that of every published interval). Sums are over what is known, and
-- NULL when nothing is; ages are the greatest known. Sums of whole numbers are decimals here, which cannot overflow:
-- whoever writes them bounds them. Rates are added up as decimals, so that no order of rows changes them.
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
  SUM(CAST(lag AS DECIMAL(28, 0))) AS lag,
  SUM(CAST(effective_lag AS DECIMAL(28, 0))) AS effective_lag,
  SUM(CAST(inflight AS DECIMAL(28, 0))) AS inflight,
  SUM(CAST(available AS DECIMAL(28, 0))) AS available,
  SUM(CAST(lost AS DECIMAL(28, 0))) AS lost,
  MAX(lag_ms) AS lag_ms,
  MAX(inflight_ms) AS inflight_ms,
  MAX(available_ms) AS available_ms,
  MAX(lost_ms) AS lost_ms,
  CAST(SUM(TRY_CAST(produce_tps AS DECIMAL(28, 6))) AS DOUBLE) AS produce_tps,
  CAST(SUM(TRY_CAST(consume_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_tps
FROM queue_figures
GROUP BY cluster, consumer_group, topic, broker_name
