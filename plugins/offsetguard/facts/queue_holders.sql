-- Who holds each queue; of several clients (a rebalance, or broadcasting) the one that pulled last.
WITH newest AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    broker_name,
    queue_id,
    CAST(COUNT(*) AS INT) AS holder_count,
    MAX(
      STRUCT(
        last_pull_at IS NOT NULL AS has_pulled,
        last_pull_at,
        client_id,
        locked,
        cached_message_count,
        cached_min_offset,
        cached_max_offset,
        cache_is_full,
        last_lock_at,
        last_consume_at
      )
    ) AS holder
  FROM held_queues
  GROUP BY cluster, consumer_group, topic, broker_name, queue_id
)

SELECT
  cluster,
  consumer_group,
  topic,
  broker_name,
  queue_id,
  holder.client_id AS holder_client_id,
  holder_count,
  holder.locked AS locked,
  holder.cached_message_count AS cached_message_count,
  holder.cached_min_offset AS cached_min_offset,
  holder.cached_max_offset AS cached_max_offset,
  holder.cache_is_full AS cache_is_full,
  holder.last_lock_at AS last_lock_at,
  holder.last_pull_at AS last_pull_at,
  holder.last_consume_at AS last_consume_at
FROM newest
