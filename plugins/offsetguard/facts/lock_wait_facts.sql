-- Waits for rebalance locks, made of log lines; in this order:
--
-- 1. A line that was read twice (a repeated round; a log file read in a round and again as a whole) counts once.
-- 2. What clients' logs say of a queue counts only where no broker's log tells of a refusal: a client names neither
--    itself nor the holder, so it cannot complete the broker's line.
-- 3. The lines of a queue are put in order. When some client gets the lock, all waits for the queue are over.
-- 4. A wait is the refusals of one (queue, holder, waiter) between two such moments. A waiter is refused at each of its
--    rebalances (20 s); where it is silent for longer than :lock_silence_us it gave up, and a later refusal begins a
--    new wait.
-- 5. A wait ends when a client gets the lock within the silence after the last refusal; else its end is not known.
-- 6. A client that gets an expired lock without a refusal since somebody last got it has not waited: its wait has no
--    refusals and lasts 0 ms. It tells that the holder had not renewed in time.
-- 7. A holder that asked for some lock itself lived then: every line of a broker names who asked.
--
-- Source of the lines: `logs.lock`, `logs.client`. A renewal prints nothing.
WITH told_lines AS (
  SELECT
    line.cluster,
    intervals.interval_start,
    consumer_group,
    topic,
    GET_JSON_OBJECT(fields_json, '$.broker_name') AS broker_name,
    queue_id,
    at,
    position,
    CASE
      WHEN kind = 'lock_refused' THEN 'refused'
      WHEN kind = 'lock_expired' THEN 'expired'  -- a client got it, for its holder had not renewed it
      WHEN kind = 'lock_taken' THEN 'released'  -- a client got it, for nobody held it any more
      WHEN GET_JSON_OBJECT(fields_json, '$.outcome') = 'Failed' THEN 'refused'
      WHEN GET_JSON_OBJECT(fields_json, '$.outcome') = 'OK' THEN 'granted'  -- it does not know why
    END AS said,
    -- Only brokers name clients
    CASE WHEN STARTSWITH(kind, 'lock_') THEN GET_JSON_OBJECT(fields_json, '$.holder_client_id') END AS holder,
    CASE WHEN STARTSWITH(kind, 'lock_') THEN client_id END AS client,
    CASE WHEN STARTSWITH(kind, 'lock_') THEN 'broker' ELSE 'client' END AS told_by
  FROM log_events_history AS line
  INNER JOIN intervals
    ON
      intervals.cluster = line.cluster
      AND intervals.interval_start >= line.interval_start
      AND UNIX_MICROS(intervals.now) - UNIX_MICROS(line.at) <= :log_window_us
  WHERE
    line.interval_start BETWEEN :oldest_log_interval AND :interval_start
    AND kind IN ('lock_refused', 'lock_expired', 'lock_taken', 'client_lock_result', 'client_lock_renewal')
),

lines AS (
  SELECT DISTINCT
    cluster,
    interval_start,
    consumer_group,
    topic,
    broker_name,
    queue_id,
    at,
    position,
    said,
    COALESCE(holder, '') AS holder,
    COALESCE(client, '') AS client,
    told_by
  FROM told_lines
  WHERE
    said IS NOT NULL
    AND consumer_group IS NOT NULL
    AND topic IS NOT NULL
    AND broker_name IS NOT NULL
    AND queue_id IS NOT NULL
),

lines_of_queues AS (
  SELECT
    *,
    MAX(CASE WHEN told_by = 'broker' AND said = 'refused' THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id
    ) AS broker_tells
  FROM lines
),

ordered AS (
  SELECT
    *,
    FIRST_VALUE(CASE WHEN said <> 'refused' THEN STRUCT(at, position, said, client) END) IGNORE NULLS OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id
      ORDER BY at, position, said, holder, client, told_by
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    ) AS got,  -- the next line that says who gets the lock
    LAG(said) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id
      ORDER BY at, position, said, holder, client, told_by
    ) AS said_before
  FROM lines_of_queues
  WHERE broker_tells = 0 OR told_by = 'broker'
),

refusals AS (
  SELECT
    *,
    UNIX_MICROS(at) - UNIX_MICROS(LAG(at) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id, got, holder, client
      ORDER BY at, position, said, told_by
    )) AS silence_us
  FROM ordered
  WHERE said = 'refused' OR (said = 'expired' AND COALESCE(said_before, 'nothing') <> 'refused')
),

numbered AS (
  SELECT
    *,
    SUM(CASE WHEN silence_us > :lock_silence_us THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id, got, holder, client
      ORDER BY at, position, said, told_by
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS wait_number
  FROM refusals
),

waits AS (
  SELECT
    cluster,
    interval_start,
    consumer_group,
    topic,
    broker_name,
    queue_id,
    got,
    holder,
    client,
    told_by,
    COUNT(CASE WHEN said = 'refused' THEN 1 END) AS refusal_count,
    MIN(at) AS first_refused_at,
    MAX(at) AS last_refused_at
  FROM numbered
  GROUP BY
    cluster, interval_start, consumer_group, topic, broker_name, queue_id, got, holder, client, told_by, wait_number
),

ended_waits AS (
  SELECT
    *,
    CASE WHEN UNIX_MICROS(got.at) - UNIX_MICROS(last_refused_at) <= :lock_silence_us THEN got END AS ended
  FROM waits
),

askers AS (
  SELECT
    cluster,
    interval_start,
    consumer_group,
    client,
    MAX(at) AS asked_at
  FROM lines
  WHERE told_by = 'broker' AND client <> ''
  GROUP BY cluster, interval_start, consumer_group, client
),

online AS (
  SELECT
    cluster,
    consumer_group,
    client_id,
    MAX(consumer_start_at) AS start_at
  FROM client_snapshots
  GROUP BY cluster, consumer_group, client_id
),

groups_seen AS (
  SELECT
    cluster,
    consumer_group
  FROM group_snapshots
  WHERE online_client_count IS NOT NULL  -- else the group has clients that nobody saw
)

SELECT
  waits.cluster,
  waits.interval_start,
  waits.consumer_group,
  waits.topic,
  waits.broker_name,
  waits.queue_id,
  NULLIF(waits.holder, '') AS holder_client_id,
  NULLIF(waits.client, '') AS waiter_client_id,
  waits.told_by,
  waits.refusal_count,
  waits.first_refused_at,
  waits.last_refused_at,
  waits.ended.at AS ended_at,
  NULLIF(waits.ended.said, 'granted') AS ended_by,
  NULLIF(waits.ended.client, '') AS next_holder_client_id,
  (UNIX_MICROS(COALESCE(waits.ended.at, waits.last_refused_at)) - UNIX_MICROS(waits.first_refused_at)) DIV 1000
    AS waited_ms,
  CASE WHEN groups_seen.cluster IS NOT NULL AND waits.holder <> '' THEN online.cluster IS NOT NULL END
    AS holder_online,
  CASE WHEN groups_seen.cluster IS NOT NULL THEN online.start_at END AS holder_start_at,
  askers.asked_at AS holder_asked_at
FROM ended_waits AS waits
LEFT JOIN askers
  ON
    askers.cluster = waits.cluster
    AND askers.interval_start = waits.interval_start
    AND askers.consumer_group = waits.consumer_group
    AND askers.client = waits.holder
LEFT JOIN online
  ON
    online.cluster = waits.cluster
    AND online.consumer_group = waits.consumer_group
    AND online.client_id = waits.holder
LEFT JOIN groups_seen
  ON
    groups_seen.cluster = waits.cluster
    AND groups_seen.consumer_group = waits.consumer_group
