-- Made of ../lock_wait_facts.sql by `make facts-sql`: change that file.
WITH told_lines AS (
  SELECT
    line.cluster,
    intervals.interval_start,
    consumer_group,
    topic,
    TRY(fields_json ->> '$.broker_name') AS broker_name,
    queue_id,
    "at",
    position,
    CASE
      WHEN kind = 'lock_refused'
      THEN 'refused'
      WHEN kind = 'lock_expired'
      THEN 'expired'
      WHEN kind = 'lock_taken'
      THEN 'released'
      WHEN TRY(fields_json ->> '$.outcome') = 'Failed'
      THEN 'refused'
      WHEN TRY(fields_json ->> '$.outcome') = 'OK'
      THEN 'granted'
    END AS said,
    CASE
      WHEN STARTS_WITH(kind, 'lock_')
      THEN TRY(fields_json ->> '$.holder_client_id')
    END AS holder,
    CASE WHEN STARTS_WITH(kind, 'lock_') THEN client_id END AS client,
    CASE WHEN STARTS_WITH(kind, 'lock_') THEN 'broker' ELSE 'client' END AS told_by
  FROM log_events_history AS line
  INNER JOIN intervals
    ON intervals.cluster = line.cluster
    AND intervals.interval_start >= line.interval_start
    AND EPOCH_US(intervals.now) - EPOCH_US(line."at") <= $log_window_us
  WHERE
    line.interval_start BETWEEN $oldest_log_interval AND $interval_start
    AND kind IN (
      'lock_refused',
      'lock_expired',
      'lock_taken',
      'client_lock_result',
      'client_lock_renewal'
    )
), lines AS (
  SELECT DISTINCT
    cluster,
    interval_start,
    consumer_group,
    topic,
    broker_name,
    queue_id,
    "at",
    position,
    said,
    COALESCE(holder, '') AS holder,
    COALESCE(client, '') AS client,
    told_by
  FROM told_lines
  WHERE
    NOT said IS NULL
    AND NOT consumer_group IS NULL
    AND NOT topic IS NULL
    AND NOT broker_name IS NULL
    AND NOT queue_id IS NULL
), lines_of_queues AS (
  SELECT
    *,
    MAX(CASE WHEN told_by = 'broker' AND said = 'refused' THEN 1 ELSE 0 END) OVER (PARTITION BY cluster, consumer_group, topic, broker_name, queue_id) AS broker_tells
  FROM lines
), ordered AS (
  SELECT
    *,
    FIRST_VALUE(
      CASE
        WHEN said <> 'refused'
        THEN {'at': "at", 'position': position, 'said': said, 'client': client}
      END
     IGNORE NULLS) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id
      ORDER BY "at" NULLS FIRST, position NULLS FIRST, said NULLS FIRST, holder NULLS FIRST, client NULLS FIRST, told_by NULLS FIRST
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    ) AS got,
    LAG(said) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id
      ORDER BY "at" NULLS FIRST, position NULLS FIRST, said NULLS FIRST, holder NULLS FIRST, client NULLS FIRST, told_by NULLS FIRST
    ) AS said_before
  FROM lines_of_queues
  WHERE
    broker_tells = 0 OR told_by = 'broker'
), refusals AS (
  SELECT
    *,
    EPOCH_US("at") - EPOCH_US(
      LAG("at") OVER (
        PARTITION BY cluster, consumer_group, topic, broker_name, queue_id, got, holder, client
        ORDER BY "at" NULLS FIRST, position NULLS FIRST, said NULLS FIRST, told_by NULLS FIRST
      )
    ) AS silence_us
  FROM ordered
  WHERE
    said = 'refused'
    OR (
      said = 'expired' AND COALESCE(said_before, 'nothing') <> 'refused'
    )
), numbered AS (
  SELECT
    *,
    SUM(CASE WHEN silence_us > $lock_silence_us THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, consumer_group, topic, broker_name, queue_id, got, holder, client
      ORDER BY "at" NULLS FIRST, position NULLS FIRST, said NULLS FIRST, told_by NULLS FIRST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS wait_number
  FROM refusals
), waits AS (
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
    MIN("at") AS first_refused_at,
    MAX("at") AS last_refused_at
  FROM numbered
  GROUP BY
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
    wait_number
), ended_waits AS (
  SELECT
    *,
    CASE
      WHEN EPOCH_US(got."at") - EPOCH_US(last_refused_at) <= $lock_silence_us
      THEN got
    END AS ended
  FROM waits
), askers AS (
  SELECT
    cluster,
    interval_start,
    consumer_group,
    client,
    MAX("at") AS asked_at
  FROM lines
  WHERE
    told_by = 'broker' AND client <> ''
  GROUP BY
    cluster,
    interval_start,
    consumer_group,
    client
), online AS (
  SELECT
    cluster,
    consumer_group,
    client_id,
    MAX(consumer_start_at) AS start_at
  FROM client_snapshots
  GROUP BY
    cluster,
    consumer_group,
    client_id
), groups_seen AS (
  SELECT
    cluster,
    consumer_group
  FROM group_snapshots
  WHERE
    NOT online_client_count IS NULL
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
  waits.ended."at" AS ended_at,
  NULLIF(waits.ended.said, 'granted') AS ended_by,
  NULLIF(waits.ended.client, '') AS next_holder_client_id,
  (
    EPOCH_US(COALESCE(waits.ended."at", waits.last_refused_at)) - EPOCH_US(waits.first_refused_at)
  ) // 1000 AS waited_ms,
  CASE
    WHEN NOT groups_seen.cluster IS NULL AND waits.holder <> ''
    THEN NOT online.cluster IS NULL
  END AS holder_online,
  CASE WHEN NOT groups_seen.cluster IS NULL THEN online.start_at END AS holder_start_at,
  askers.asked_at AS holder_asked_at
FROM ended_waits AS waits
LEFT JOIN askers
  ON askers.cluster = waits.cluster
  AND askers.interval_start = waits.interval_start
  AND askers.consumer_group = waits.consumer_group
  AND askers.client = waits.holder
LEFT JOIN online
  ON online.cluster = waits.cluster
  AND online.consumer_group = waits.consumer_group
  AND online.client_id = waits.holder
LEFT JOIN groups_seen
  ON groups_seen.cluster = waits.cluster
  AND groups_seen.consumer_group = waits.consumer_group
