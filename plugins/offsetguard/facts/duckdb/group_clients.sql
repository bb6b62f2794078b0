-- Made of ../group_clients.sql by `make facts-sql`: change that file.
SELECT
  cluster,
  consumer_group,
  NULLIF(TRY_CAST(COUNT(running_info_read_at) AS INT), 0) AS told_client_count,
  NULLIF(TRY_CAST(COUNT(held_queue_count) AS INT), 0) AS listing_client_count,
  TRY_CAST(SUM(thread_count) AS INT) AS thread_count,
  MAX(orderly) AS orderly,
  MAX(max_reconsume_times) AS max_reconsume_times,
  TRY_CAST(SUM(TRY_CAST(consume_ok_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_ok_tps,
  TRY_CAST(SUM(TRY_CAST(consume_failed_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_failed_tps,
  MAX(consume_rt_ms) AS consume_rt_ms,
  MAX(consumer_start_at) AS newest_client_start_at,
  ARRAY_TO_STRING(
    COALESCE(
      LIST_SORT(LIST(DISTINCT client_id) FILTER(WHERE
        NOT client_id IS NULL), 'ASC', 'NULLS FIRST'),
      []
    ),
    ' '
  ) AS client_ids,
  ARRAY_TO_STRING(
    COALESCE(
      LIST_SORT(
        LIST(DISTINCT client_id || ' ' || TRY_CAST(EPOCH_US(consumer_start_at) AS TEXT)) FILTER(WHERE
          NOT client_id || ' ' || TRY_CAST(EPOCH_US(consumer_start_at) AS TEXT) IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    ),
    ' '
  ) AS client_starts,
  CASE
    WHEN COUNT(connection_count) > 0
    THEN COALESCE(
      LIST_SORT(
        LIST(DISTINCT CASE WHEN connection_count > 1 THEN client_id END) FILTER(WHERE
          NOT CASE WHEN connection_count > 1 THEN client_id END IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    )
  END AS doubled_client_ids,
  CASE
    WHEN COUNT(running_info_read_at) > 0
    THEN COALESCE(
      LIST_SORT(
        LIST(DISTINCT CASE WHEN running_info_read_at IS NULL THEN client_id END) FILTER(WHERE
          NOT CASE WHEN running_info_read_at IS NULL THEN client_id END IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    )
  END AS silent_client_ids,
  CASE
    WHEN COUNT(own_subscriptions) > 1
    THEN COUNT(DISTINCT own_subscriptions) > 1
  END AS subscriptions_differ,
  COUNT(own_subscriptions) AS own_count
FROM clients
GROUP BY
  cluster,
  consumer_group
