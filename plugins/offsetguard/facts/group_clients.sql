-- What a group's clients say of themselves, alike for all topics of the group.
SELECT
  cluster,
  consumer_group,
  NULLIF(CAST(COUNT(running_info_read_at) AS INT), 0) AS told_client_count,
  -- Pull consumers of 4.x do not say which queues they hold
  NULLIF(CAST(COUNT(held_queue_count) AS INT), 0) AS listing_client_count,
  CAST(SUM(thread_count) AS INT) AS thread_count,
  MAX(orderly) AS orderly,
  MAX(max_reconsume_times) AS max_reconsume_times,
  CAST(SUM(TRY_CAST(consume_ok_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_ok_tps,
  CAST(SUM(TRY_CAST(consume_failed_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_failed_tps,
  MAX(consume_rt_ms) AS consume_rt_ms,  -- the slowest client's
  MAX(consumer_start_at) AS newest_client_start_at,
  ARRAY_JOIN(COALESCE(SORT_ARRAY(COLLECT_SET(client_id)), ARRAY()), ' ') AS client_ids,
  ARRAY_JOIN(
    COALESCE(SORT_ARRAY(COLLECT_SET(CONCAT(client_id, ' ', CAST(UNIX_MICROS(consumer_start_at) AS STRING)))), ARRAY()),
    ' '
  ) AS client_starts,
  CASE
    WHEN COUNT(connection_count) > 0
      THEN COALESCE(SORT_ARRAY(COLLECT_SET(CASE WHEN connection_count > 1 THEN client_id END)), ARRAY())
  END AS doubled_client_ids,
  CASE
    WHEN COUNT(running_info_read_at) > 0
      THEN COALESCE(SORT_ARRAY(COLLECT_SET(CASE WHEN running_info_read_at IS NULL THEN client_id END)), ARRAY())
  END AS silent_client_ids,
  CASE WHEN COUNT(own_subscriptions) > 1 THEN COUNT(DISTINCT own_subscriptions) > 1 END AS subscriptions_differ,
  COUNT(own_subscriptions) AS own_count  -- clients whose own subscriptions are known
FROM clients
GROUP BY cluster, consumer_group
