-- The queues that clients say they hold, with the client's threads, and whether it has stopped pulling because it has
-- as many messages, or MiB, of the queue as it may have; a limit of 0 is none.
SELECT
  client_queue_snapshots.*,
  thread_count,
  CASE WHEN pull_threshold_for_queue <= 0 THEN FALSE ELSE cached_message_count >= pull_threshold_for_queue END
  OR CASE
    WHEN pull_threshold_size_for_queue_mib <= 0 THEN FALSE
    ELSE cached_message_mib >= pull_threshold_size_for_queue_mib
  END AS cache_is_full
FROM client_queue_snapshots
LEFT JOIN clients USING (cluster, consumer_group, client_id)
WHERE NOT COALESCE(dropped, FALSE)
