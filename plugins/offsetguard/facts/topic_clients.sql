-- What the clients that told hold of a topic.
WITH by_client AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    client_id,
    MAX(thread_count) AS thread_count,
    SUM(CAST(cached_message_count AS DECIMAL(28, 0))) AS cached_message_count
  FROM held_queues
  GROUP BY cluster, consumer_group, topic, client_id
),

added_up AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    CAST(COUNT(*) AS INT) AS holding_client_count,
    CAST(SUM(thread_count) AS INT) AS holding_thread_count,
    SUM(cached_message_count) AS cached_message_count
  FROM by_client
  GROUP BY cluster, consumer_group, topic
),

by_queue AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    broker_name,
    queue_id,
    MAX(locked) AS locked,
    MAX(cache_is_full) AS cache_is_full,
    -- how much later than the last renewal of its lock the queue was pulled or consumed, ms by the client's clock
    MAX(
      CASE
        WHEN locked
          THEN
            CAST(FLOOR(UNIX_MICROS(GREATEST(last_pull_at, last_consume_at)) / 1000) AS BIGINT)
            - CAST(FLOOR(UNIX_MICROS(last_lock_at) / 1000) AS BIGINT)
      END
    ) AS renewal_gap_ms
  FROM held_queues
  GROUP BY cluster, consumer_group, topic, broker_name, queue_id
),

queues AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    CAST(COUNT(*) AS INT) AS held_queue_count,
    CAST(COUNT(CASE WHEN locked THEN 1 END) AS INT) AS locked_queue_count,
    CAST(COUNT(CASE WHEN cache_is_full THEN 1 END) AS INT) AS full_cache_queue_count,
    MAX(renewal_gap_ms) AS renewal_gap_ms
  FROM by_queue
  GROUP BY cluster, consumer_group, topic
)

SELECT
  cluster,
  consumer_group,
  topic,
  holding_client_count,
  held_queue_count,
  locked_queue_count,
  full_cache_queue_count,
  CASE
    WHEN cached_message_count IS NOT NULL
      THEN CAST(LEAST(GREATEST(cached_message_count, -9223372036854775808), 9223372036854775807) AS BIGINT)
  END AS cached_message_count,
  renewal_gap_ms,
  holding_thread_count
FROM added_up
INNER JOIN queues USING (cluster, consumer_group, topic)
