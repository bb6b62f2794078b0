-- Made of ../offset_move_facts.sql by `make facts-sql`: change that file.
WITH rows_once AS (
  SELECT DISTINCT
    move.cluster,
    intervals.interval_start,
    origin,
    position,
    moved_at,
    consumer_group,
    NULLIF(client_id, '') AS client_id,
    topic,
    broker_name,
    queue_id,
    requested_offset,
    corrected_offset,
    nearest_start_at,
    EPOCH_US(intervals.now) - EPOCH_US(moved_at) <= $move_window_us AS is_recent
  FROM offset_moves_history AS move
  INNER JOIN intervals
    ON intervals.cluster = move.cluster
    AND intervals.interval_start >= move.interval_start
    AND EPOCH_US(intervals.now) - EPOCH_US(moved_at) <= CASE WHEN origin = 'snapshot' THEN $move_window_us ELSE $told_move_window_us END
  WHERE
    move.interval_start BETWEEN $oldest_move_interval AND $interval_start
), same_requests AS (
  SELECT
    *,
    MAX(CASE WHEN origin = 'event' THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, requested_offset, is_recent
    ) AS has_event,
    MIN(CASE WHEN origin = 'log' THEN client_id END) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, requested_offset, is_recent
    ) AS first_log_client,
    MAX(CASE WHEN origin = 'log' THEN client_id END) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, requested_offset, is_recent
    ) AS last_log_client
  FROM rows_once
), told_once AS (
  SELECT
    cluster,
    interval_start,
    origin,
    position,
    moved_at,
    consumer_group,
    COALESCE(
      client_id,
      CASE
        WHEN origin = 'event' AND first_log_client = last_log_client
        THEN first_log_client
      END
    ) AS client_id,
    topic,
    broker_name,
    queue_id,
    requested_offset,
    corrected_offset,
    nearest_start_at,
    is_recent
  FROM same_requests
  WHERE
    has_event = 0 OR origin <> 'log'
), moves AS (
  SELECT
    cluster,
    interval_start,
    origin,
    consumer_group,
    client_id,
    topic,
    broker_name,
    queue_id,
    requested_offset,
    is_recent,
    MAX(
      {'moved_at': moved_at, 'position': position, 'corrected_offset': corrected_offset}
    ).corrected_offset AS corrected_offset,
    MAX(
      {'moved_at': moved_at, 'position': position, 'nearest_start_at': nearest_start_at}
    ).nearest_start_at AS nearest_start_at,
    COUNT(*) AS move_count,
    MIN(moved_at) AS first_moved_at,
    MAX(moved_at) AS last_moved_at
  FROM told_once
  GROUP BY
    cluster,
    interval_start,
    origin,
    consumer_group,
    client_id,
    topic,
    broker_name,
    queue_id,
    requested_offset,
    is_recent
), changes AS (
  SELECT DISTINCT
    line.cluster,
    intervals.interval_start,
    consumer_group,
    "at"
  FROM log_events_history AS line
  INNER JOIN intervals
    ON intervals.cluster = line.cluster
    AND intervals.interval_start >= line.interval_start
  WHERE
    line.interval_start BETWEEN $oldest_move_interval AND $interval_start
    AND NOT consumer_group IS NULL
    AND NOT "at" IS NULL
    AND kind IN (
      'members_changed',
      'consumer_started',
      'consumer_stopped',
      'consumer_connected',
      'consumer_unregistered',
      'channel_removed',
      'channel_expired',
      'group_offline'
    )
), changed AS (
  SELECT
    cluster,
    interval_start,
    consumer_group,
    last_moved_at,
    MIN({'distance_us': ABS(EPOCH_US("at") - EPOCH_US(last_moved_at)), 'at': "at"})."at" AS members_changed_at
  FROM (
    SELECT DISTINCT
      cluster,
      interval_start,
      consumer_group,
      last_moved_at
    FROM moves
    WHERE
      origin = 'snapshot'
  ) AS moments
  INNER JOIN changes
    USING (cluster, interval_start, consumer_group)
  GROUP BY
    cluster,
    interval_start,
    consumer_group,
    last_moved_at
), related AS (
  SELECT
    move.*,
    COUNT(other.origin) AS related_count,
    MIN(other.queue_id) AS first_queue_id,
    MAX(other.queue_id) AS last_queue_id,
    MAX(other.corrected_offset) AS told_to,
    MIN(CASE WHEN other.corrected_offset = move.corrected_offset THEN other.queue_id END) AS first_exact_queue_id,
    MAX(CASE WHEN other.corrected_offset = move.corrected_offset THEN other.queue_id END) AS last_exact_queue_id
  FROM moves AS move
  LEFT JOIN moves AS other
    ON other.cluster = move.cluster
    AND other.consumer_group = move.consumer_group
    AND other.topic = move.topic
    AND other.broker_name = move.broker_name
    AND (
      other.origin = 'snapshot'
    ) <> (
      move.origin = 'snapshot'
    )
    AND COALESCE(other.queue_id, move.queue_id) = COALESCE(move.queue_id, other.queue_id)
    AND LEAST(other.requested_offset, move.requested_offset) >= 0
    AND (
      other.corrected_offset > other.requested_offset
    ) = (
      move.corrected_offset > move.requested_offset
    )
    AND GREATEST(
      LEAST(other.requested_offset, other.corrected_offset),
      LEAST(move.requested_offset, move.corrected_offset)
    ) < LEAST(
      GREATEST(other.requested_offset, other.corrected_offset),
      GREATEST(move.requested_offset, move.corrected_offset)
    )
  GROUP BY ALL
)
SELECT
  cluster,
  interval_start,
  consumer_group,
  client_id,
  topic,
  broker_name,
  COALESCE(
    queue_id,
    CASE WHEN first_exact_queue_id = last_exact_queue_id THEN first_exact_queue_id END,
    CASE
      WHEN first_exact_queue_id IS NULL AND first_queue_id = last_queue_id
      THEN first_queue_id
    END
  ) AS queue_id,
  CASE
    WHEN origin = 'snapshot' AND related_count > 0
    THEN told_to
    ELSE requested_offset
  END AS requested_offset,
  corrected_offset,
  move_count,
  first_moved_at,
  last_moved_at,
  origin,
  nearest_start_at,
  CASE WHEN origin = 'snapshot' THEN members_changed_at END AS members_changed_at
FROM related
LEFT JOIN changed
  USING (cluster, interval_start, consumer_group, last_moved_at)
WHERE
  is_recent
  AND (
    origin <> 'snapshot'
    OR related_count = 0
    OR (
      requested_offset < corrected_offset AND told_to < corrected_offset
    )
  )
