-- Made of ../clients.sql by `make facts-sql`: change that file.
SELECT
  cluster,
  consumer_group,
  client_id,
  MAX(running_info_read_at) AS running_info_read_at,
  MAX(thread_count) AS thread_count,
  MAX(orderly) AS orderly,
  MAX(max_reconsume_times) AS max_reconsume_times,
  MAX(consume_ok_tps) AS consume_ok_tps,
  MAX(consume_failed_tps) AS consume_failed_tps,
  MAX(consume_rt_ms) AS consume_rt_ms,
  MAX(consumer_start_at) AS consumer_start_at,
  MAX(pull_threshold_for_queue) AS pull_threshold_for_queue,
  MAX(pull_threshold_size_for_queue_mib) AS pull_threshold_size_for_queue_mib,
  MAX(held_queue_count) AS held_queue_count,
  MAX(own_subscriptions) AS own_subscriptions,
  MAX(connection_count) AS connection_count
FROM client_snapshots
GROUP BY
  cluster,
  consumer_group,
  client_id
