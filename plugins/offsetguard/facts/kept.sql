-- What each broker keeps of each topic: topics, brokers and the cluster add it up again.
--
-- Sums of whole numbers are decimals, which cannot overflow: whoever writes them bounds them.
WITH queues AS (
  SELECT
    kept.*,
    CAST(kept.max_offset AS DECIMAL(28, 0)) - CAST(kept.min_offset AS DECIMAL(28, 0)) AS messages,
    -- Nobody consumes a queue beyond the read queues; not known without the settings
    kept.queue_id >= settings.read_queue_nums AS unreadable,
    -- Consumers read it and producers do not write it; likewise
    kept.queue_id >= settings.write_queue_nums AND kept.queue_id < settings.read_queue_nums AS unwritten
  FROM topic_queue_snapshots AS kept
  LEFT JOIN topic_settings AS settings
    ON
      settings.cluster = kept.cluster
      AND settings.topic = kept.topic
      AND settings.broker_name = kept.broker_name
)

SELECT
  cluster,
  topic,
  broker_name,
  COUNT(*) AS queue_count,
  SUM(messages) AS message_count,
  COUNT(max_offset) AS seen_queue_count,
  SUM(CAST(max_offset AS DECIMAL(28, 0))) AS max_offset_total,
  MIN(read_at) AS counted_at,
  MAX(last_update_at) AS last_update_at,
  CASE
    WHEN MAX(unreadable) OR COUNT(unreadable) = COUNT(*) THEN COUNT(CASE WHEN unreadable THEN 1 END)
  END AS unreadable_queue_count,
  SUM(CASE WHEN unreadable THEN messages END) AS unreadable_message_count,
  SUM(CASE WHEN unwritten THEN messages END) AS unwritten_message_count,
  COUNT(CASE WHEN max_offset IS NULL AND unwritten OR unwritten IS NULL THEN 1 END) AS unseen_unwritten_count,
  MAX(CASE WHEN unwritten THEN max_offset > 0 END) AS unwritten_queues_used
FROM queues
GROUP BY cluster, topic, broker_name
