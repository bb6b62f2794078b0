-- Made of ../queue_holders.sql by `make facts-sql`: change that file.
WITH newest AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    broker_name,
    queue_id,
    TRY_CAST(COUNT(*) AS INT) AS holder_count,
    MAX(
      {'has_pulled': NOT last_pull_at IS NULL, 'last_pull_at': last_pull_at, 'client_id': client_id, 'locked': locked, 'cached_message_count': cached_message_count, 'cached_min_offset': cached_min_offset, 'cached_max_offset': cached_max_offset, 'cache_is_full': cache_is_full, 'last_lock_at': last_lock_at, 'last_consume_at': last_consume_at}
    ) AS holder
  FROM held_queues
  GROUP BY
    cluster,
    consumer_group,
    topic,
    broker_name,
    queue_id
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
