-- What logs said about a group, counted: rebalances, resets, refused pulls, full caches; in this order:
--
-- 1. Lines of some kinds within the look-back window, each once however often it was read.
-- 2. Code 25 has one kind, whether 4.x prints it as an exception or 5.x as a sentence; so has code 24 of a group that
--    no client is registered for, whether its broker or its client prints it. Code 26 is of a group that its broker
--    does not know. Other refusals are left out.
-- 3. A line that names no group (a client's log) belongs to the group that its path names, else to the one group that
--    the other lines of that log name; where there is none, or more than one, it is left out: we do not guess.
-- 4. Lines become one fact per (group, topic, kind, log source, broker, queue). `broker_name`: whom the line is about.
-- 5. A *spell* is a run of lines without a silence longer than :log_silence_us, which is two rebalance rounds and a
--    late one. What comes up at every rebalance (20 s) is one spell as long as it lasts; noise after a restart is
--    short.
--
-- Source of the lines: `logs.broker`, `logs.members`, `logs.client`.
WITH chosen AS (
  SELECT
    line.*,
    intervals.interval_start AS of_interval,
    MIN(CASE WHEN broker_name IS NULL THEN consumer_group END) OVER (PARTITION BY line.cluster, source) AS first_group,
    MAX(CASE WHEN broker_name IS NULL THEN consumer_group END) OVER (PARTITION BY line.cluster, source) AS last_group,
    -- LocalFileOffsetStore: <localOffsetStoreDir>/<client id>/<group>/offsets.json
    CASE
      WHEN kind = 'offset_file_not_written' AND consumer_group IS NULL AND broker_name IS NULL
        THEN GET_JSON_OBJECT(fields_json, '$.path')
    END AS offset_file
  FROM log_events_history AS line
  INNER JOIN intervals
    ON
      intervals.cluster = line.cluster
      AND intervals.interval_start >= line.interval_start
      AND UNIX_MICROS(intervals.now) - UNIX_MICROS(line.at) <= :log_window_us
  WHERE
    line.interval_start BETWEEN :oldest_log_interval AND :interval_start
    AND kind IN (
      'client_not_in_members', 'client_subscription_not_latest', 'subscription_not_latest', 'member_list_failed',
      'pull_refused', 'group_not_online',
      'members_changed', 'consumer_started', 'consumer_stopped', 'consumer_connected', 'consumer_unregistered',
      'channel_removed', 'channel_expired', 'group_offline',
      'offset_reset_started', 'offset_reset_sent', 'offset_reset_stored', 'client_offset_reset',
      'offsets_removed',
      'flow_control_count', 'flow_control_size', 'flow_control_span', 'flow_control_requests', 'flow_control_pop',
      'client_offset_illegal', 'offset_file_not_written'
    )
),

owned AS (
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
      WHEN kind <> 'pull_refused' THEN kind
      WHEN GET_JSON_OBJECT(fields_json, '$.response_code') = '25' THEN 'client_subscription_not_latest'
      WHEN
        GET_JSON_OBJECT(fields_json, '$.response_code') = '24'
        AND GET_JSON_OBJECT(fields_json, '$.description') LIKE '%group info not exist%' THEN 'group_not_online'
      WHEN GET_JSON_OBJECT(fields_json, '$.response_code') = '26' THEN 'group_not_created'
    END AS kind,
    source,
    COALESCE(broker_name, GET_JSON_OBJECT(fields_json, '$.broker_name')) AS broker_name,
    queue_id,
    at,
    position,
    COALESCE(NULLIF(client_id, ''), REGEXP_EXTRACT(offset_file, '/([^/]+)/([^/]+)/offsets[.]json', 1), '')
      AS client,
    fields_json
  FROM chosen
),

lines AS (
  SELECT DISTINCT *
  FROM owned
  WHERE consumer_group IS NOT NULL AND kind IS NOT NULL
),

with_silences AS (
  SELECT
    *,
    UNIX_MICROS(at) - UNIX_MICROS(LAG(at) OVER (
      PARTITION BY cluster, consumer_group, topic, kind, source, broker_name, queue_id
      ORDER BY at, position, client, fields_json
    )) AS silence_us
  FROM lines
),

numbered AS (
  SELECT
    *,
    SUM(CASE WHEN silence_us > :log_silence_us THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, consumer_group, topic, kind, source, broker_name, queue_id
      ORDER BY at, position, client, fields_json
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS spell_number,
    SUM(CASE WHEN silence_us > :log_silence_us THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, consumer_group, topic, kind, source, broker_name, queue_id
    ) AS newest_spell_number
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
  MIN(at) AS first_at,
  MAX(at) AS last_at,
  COUNT(CASE WHEN spell_number = newest_spell_number THEN 1 END) AS spell_line_count,
  MIN(CASE WHEN spell_number = newest_spell_number THEN at END) AS spell_first_at,
  SLICE(COALESCE(SORT_ARRAY(COLLECT_SET(NULLIF(client, ''))), ARRAY()), 1, :most_clients) AS client_ids,
  MAX(STRUCT(at, position, client, fields_json)).fields_json AS newest_fields_json
FROM numbered
GROUP BY cluster, interval_start, consumer_group, topic, kind, source, broker_name, queue_id
