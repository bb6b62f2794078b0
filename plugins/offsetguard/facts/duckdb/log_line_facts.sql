-- Made of ../log_line_facts.sql by `make facts-sql`: change that file.
WITH chosen AS (
  SELECT
    line.*,
    intervals.interval_start AS of_interval,
    MIN(CASE WHEN broker_name IS NULL THEN consumer_group END) OVER (PARTITION BY line.cluster, source) AS first_group,
    MAX(CASE WHEN broker_name IS NULL THEN consumer_group END) OVER (PARTITION BY line.cluster, source) AS last_group,
    CASE
      WHEN kind = 'offset_file_not_written'
      AND consumer_group IS NULL
      AND broker_name IS NULL
      THEN TRY(fields_json ->> '$.path')
    END AS offset_file
  FROM log_events_history AS line
  INNER JOIN intervals
    ON intervals.cluster = line.cluster
    AND intervals.interval_start >= line.interval_start
    AND EPOCH_US(intervals.now) - EPOCH_US(line."at") <= $log_window_us
  WHERE
    line.interval_start BETWEEN $oldest_log_interval AND $interval_start
    AND kind IN (
      'client_not_in_members',
      'client_subscription_not_latest',
      'subscription_not_latest',
      'member_list_failed',
      'pull_refused',
      'group_not_online',
      'members_changed',
      'consumer_started',
      'consumer_stopped',
      'consumer_connected',
      'consumer_unregistered',
      'channel_removed',
      'channel_expired',
      'group_offline',
      'offset_reset_started',
      'offset_reset_sent',
      'offset_reset_stored',
      'client_offset_reset',
      'offsets_removed',
      'flow_control_count',
      'flow_control_size',
      'flow_control_span',
      'flow_control_requests',
      'flow_control_pop',
      'client_offset_illegal',
      'offset_file_not_written'
    )
), owned AS (
  SELECT
    cluster,
    of_interval AS interval_start,
    COALESCE(
      consumer_group,
      NULLIF(REGEXP_EXTRACT(offset_file, '/([^/]+)/([^/]+)/offsets[.]json', 2), ''),
      CASE WHEN broker_name IS NULL AND first_group = last_group THEN first_group END
    ) AS consumer_group,
    topic,
    CASE
      WHEN kind <> 'pull_refused'
      THEN kind
      WHEN TRY(fields_json ->> '$.response_code') = '25'
      THEN 'client_subscription_not_latest'
      WHEN TRY(fields_json ->> '$.response_code') = '24'
      AND TRY(fields_json ->> '$.description') LIKE '%group info not exist%'
      THEN 'group_not_online'
      WHEN TRY(fields_json ->> '$.response_code') = '26'
      THEN 'group_not_created'
    END AS kind,
    source,
    COALESCE(broker_name, TRY(fields_json ->> '$.broker_name')) AS broker_name,
    queue_id,
    "at",
    position,
    COALESCE(
      NULLIF(client_id, ''),
      REGEXP_EXTRACT(offset_file, '/([^/]+)/([^/]+)/offsets[.]json', 1),
      ''
    ) AS client,
    fields_json
  FROM chosen
), lines AS (
  SELECT DISTINCT
    *
  FROM owned
  WHERE
    NOT consumer_group IS NULL AND NOT kind IS NULL
), with_silences AS (
  SELECT
    *,
    EPOCH_US("at") - EPOCH_US(
      LAG("at") OVER (
        PARTITION BY cluster, consumer_group, topic, kind, source, broker_name, queue_id
        ORDER BY "at" NULLS FIRST, position NULLS FIRST, client NULLS FIRST, fields_json NULLS FIRST
      )
    ) AS silence_us
  FROM lines
), numbered AS (
  SELECT
    *,
    SUM(CASE WHEN silence_us > $log_silence_us THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, consumer_group, topic, kind, source, broker_name, queue_id
      ORDER BY "at" NULLS FIRST, position NULLS FIRST, client NULLS FIRST, fields_json NULLS FIRST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS spell_number,
    SUM(CASE WHEN silence_us > $log_silence_us THEN 1 ELSE 0 END) OVER (PARTITION BY cluster, consumer_group, topic, kind, source, broker_name, queue_id) AS newest_spell_number
  FROM with_silences
)
SELECT
  cluster,
  interval_start,
  consumer_group,
  topic,
  kind,
  source,
  broker_name,
  queue_id,
  COUNT(*) AS line_count,
  MIN("at") AS first_at,
  MAX("at") AS last_at,
  COUNT(CASE WHEN spell_number = newest_spell_number THEN 1 END) AS spell_line_count,
  MIN(CASE WHEN spell_number = newest_spell_number THEN "at" END) AS spell_first_at,
  ARRAY_SLICE(
    COALESCE(
      LIST_SORT(
        LIST(DISTINCT NULLIF(client, '')) FILTER(WHERE
          NOT NULLIF(client, '') IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    ),
    1,
    (
      1 + CAST($most_clients AS BIGINT)
    ) - 1
  ) AS client_ids,
  MAX({'at': "at", 'position': position, 'client': client, 'fields_json': fields_json}).fields_json AS newest_fields_json
FROM numbered
GROUP BY
  cluster,
  interval_start,
  consumer_group,
  topic,
  kind,
  source,
  broker_name,
  queue_id
