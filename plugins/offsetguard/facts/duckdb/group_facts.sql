-- Made of ../group_facts.sql by `make facts-sql`: change that file.
WITH counted AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    broker_name,
    CASE WHEN stats_name = 'GROUP_GET_NUMS' AND broker_id = 0 THEN tps END AS master_tps,
    CASE WHEN stats_name = 'GROUP_GET_NUMS' AND broker_id <> 0 THEN tps END AS slave_tps,
    CASE WHEN stats_name = 'GROUP_GET_NUMS' AND broker_id <> 0 THEN counting_since END AS slave_since,
    CASE WHEN stats_name = 'SNDBCK_PUT_NUMS' THEN tps END AS send_back_tps
  FROM broker_stats
), replica_rates AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    broker_name,
    MAX(master_tps) AS master_tps,
    TRY_CAST(SUM(TRY_CAST(slave_tps AS DECIMAL(28, 6))) AS DOUBLE) AS slave_tps,
    COUNT(slave_tps) AS seen_slave_count,
    MIN(slave_since) AS slave_since,
    TRY_CAST(SUM(TRY_CAST(send_back_tps AS DECIMAL(28, 6))) AS DOUBLE) AS send_back_tps
  FROM counted
  GROUP BY
    cluster,
    consumer_group,
    topic,
    broker_name
), slaves AS (
  SELECT
    cluster,
    broker_name,
    COUNT(*) AS slave_count
  FROM broker_snapshots
  WHERE
    broker_id <> 0
  GROUP BY
    cluster,
    broker_name
), refusing AS (
  SELECT
    cluster,
    consumer_group,
    UNNEST(uncreated_broker_names) AS broker_name,
    'uncreated' AS of_group
  FROM group_snapshots
  UNION ALL
  SELECT
    cluster,
    consumer_group,
    UNNEST(disabled_broker_names) AS broker_name,
    'disabled' AS of_group
  FROM group_snapshots
), forbidding AS (
  SELECT
    cluster,
    consumer_group,
    SPLIT_PART(entry, ' ', 1) AS broker_name,
    SPLIT_PART(entry, ' ', 2) AS topic,
    TRUE AS is_forbidden
  FROM (
    SELECT
      cluster,
      consumer_group,
      UNNEST(forbidden_topics) AS entry
    FROM group_snapshots
  ) AS forbidden
), masters AS (
  SELECT
    cluster,
    broker_name,
    broker_permission
  FROM broker_snapshots
  WHERE
    broker_id = 0
), permissions AS (
  SELECT
    cluster,
    broker_name,
    topic,
    perm
  FROM topic_settings
), rated AS (
  SELECT
    *,
    CASE
      WHEN (
        broker_permission & 4
      ) = 0
      THEN 'broker'
      WHEN NOT of_group IS NULL
      THEN of_group
      WHEN (
        perm & 4
      ) = 0
      THEN 'topic'
      WHEN is_forbidden
      THEN 'forbidden'
    END AS refused_by,
    GREATEST(COALESCE(slave_count, 0) - COALESCE(seen_slave_count, 0), 0) AS unseen_slave_count
  FROM pairs
  LEFT JOIN replica_rates
    USING (cluster, consumer_group, topic, broker_name)
  LEFT JOIN slaves
    USING (cluster, broker_name)
  LEFT JOIN masters
    USING (cluster, broker_name)
  LEFT JOIN refusing
    USING (cluster, consumer_group, broker_name)
  LEFT JOIN permissions
    USING (cluster, broker_name, topic)
  LEFT JOIN forbidding
    USING (cluster, consumer_group, broker_name, topic)
), by_broker AS (
  SELECT
    *,
    CASE
      WHEN master_tps IS NULL
      THEN NULL
      WHEN slave_tps > master_tps
      THEN TRUE
      WHEN unseen_slave_count > 0
      THEN NULL
      ELSE FALSE
    END AS reads_moved
  FROM rated
), added_up AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    TRY_CAST(COUNT(*) AS INT) AS broker_count,
    TRY_CAST(SUM(queue_count) AS INT) AS queue_count,
    TRY_CAST(SUM(unknown_queue_count) AS INT) AS unknown_queue_count,
    TRY_CAST(SUM(never_committed_queue_count) AS INT) AS never_committed_queue_count,
    TRY_CAST(SUM(suspect_queue_count) AS INT) AS suspect_queue_count,
    SUM(lag) AS lag,
    SUM(effective_lag) AS effective_lag,
    SUM(inflight) AS inflight,
    SUM(available) AS available,
    SUM(lost) AS lost,
    SUM(beyond_end) AS beyond_end,
    MAX(lag_ms) AS lag_ms,
    MAX(inflight_ms) AS inflight_ms,
    MAX(available_ms) AS available_ms,
    MAX(lost_ms) AS lost_ms,
    TRY_CAST(SUM(TRY_CAST(produce_tps AS DECIMAL(28, 6))) AS DOUBLE) AS produce_tps,
    TRY_CAST(SUM(TRY_CAST(consume_tps AS DECIMAL(28, 6))) AS DOUBLE) AS consume_tps,
    CASE
      WHEN SUM(committed_queue_count) = SUM(queue_count)
      THEN SUM(consumer_offset_total)
    END AS consumer_offset_total,
    MIN(counted_at) AS counted_at,
    TRY_CAST(SUM(TRY_CAST(master_tps AS DECIMAL(28, 6))) AS DOUBLE) AS master_get_tps,
    TRY_CAST(SUM(TRY_CAST(slave_tps AS DECIMAL(28, 6))) AS DOUBLE) AS slave_get_tps,
    CASE
      WHEN COUNT(master_tps) + COUNT(slave_tps) > 0
      THEN TRY_CAST(SUM(unseen_slave_count + CASE WHEN master_tps IS NULL THEN 1 ELSE 0 END) AS INT)
    END AS unseen_rate_count,
    CASE
      WHEN MAX(reads_moved)
      THEN TRUE
      WHEN COUNT(reads_moved) < COUNT(*)
      THEN NULL
      ELSE FALSE
    END AS reads_moved_to_slave,
    CASE
      WHEN MAX(reads_moved)
      THEN COALESCE(
        LIST_SORT(
          ARRAY_AGG(CASE WHEN reads_moved THEN broker_name END) FILTER(WHERE CASE WHEN reads_moved THEN broker_name END IS NOT NULL),
          'ASC',
          'NULLS FIRST'
        ),
        []
      )
    END AS slave_read_broker_names,
    MIN(CASE WHEN reads_moved THEN slave_since END) AS slave_read_since,
    CASE
      WHEN COUNT(refused_by) > 0
      THEN COALESCE(
        LIST_SORT(
          ARRAY_AGG(broker_name || ' ' || refused_by) FILTER(WHERE broker_name || ' ' || refused_by IS NOT NULL),
          'ASC',
          'NULLS FIRST'
        ),
        []
      )
    END AS refusals,
    TRY_CAST(SUM(TRY_CAST(send_back_tps AS DECIMAL(28, 6))) AS DOUBLE) AS send_back_tps
  FROM by_broker
  GROUP BY
    cluster,
    consumer_group,
    topic
), rated_and_bounded AS (
  SELECT
    *,
    CASE
      WHEN NOT master_get_tps IS NULL OR NOT slave_get_tps IS NULL
      THEN COALESCE(master_get_tps, 0) + COALESCE(slave_get_tps, 0)
    END AS get_tps,
    LIST_TRANSFORM(
      [lag, effective_lag, inflight, available, lost, beyond_end, consumer_offset_total],
      LAMBDA x : CASE
        WHEN NOT x IS NULL
        THEN TRY_CAST(LEAST(GREATEST(x, -9223372036854775808), 9223372036854775807) AS BIGINT)
      END
    ) AS sums
  FROM added_up
), kinds AS (
  SELECT
    cluster,
    topic,
    MAX(topic_kind) AS topic_kind
  FROM topic_settings
  GROUP BY
    cluster,
    topic
), settings AS (
  SELECT
    cluster,
    consumer_group,
    system_group,
    retry_max_times,
    consume_enabled,
    consume_broadcast_enabled,
    consume_message_orderly,
    enabling_options,
    reset_settings,
    which_broker_when_consume_slowly,
    online_client_count,
    message_model,
    consume_type,
    client_versions,
    declared_orderly,
    lock_interval_ms,
    lock_max_live_time_ms,
    members_differ,
    members_differ_since,
    missing_members,
    departures,
    client_stacks,
    retry_message_count,
    retry_growth,
    dead_letter_message_count,
    dead_letter_growth,
    oldest_dead_letter_at,
    uncommitted_at,
    consumption,
    consumption_evidence,
    pop_available,
    pop_inflight,
    pop_inflight_origin,
    pop_unfinished_since,
    lite_topic_count,
    lite_lag,
    suspect_reason,
    in_detail
  FROM group_snapshots
)
SELECT
  cluster,
  intervals.interval_start,
  consumer_group,
  topic,
  topic_kind,
  queue_count,
  unknown_queue_count,
  never_committed_queue_count,
  suspect_queue_count,
  sums[1] AS lag,
  sums[2] AS effective_lag,
  sums[3] AS inflight,
  sums[4] AS available,
  sums[5] AS lost,
  sums[6] AS beyond_end,
  lag_ms,
  inflight_ms,
  available_ms,
  lost_ms,
  online_client_count,
  message_model,
  consume_type,
  client_versions,
  declared_orderly,
  lock_interval_ms,
  lock_max_live_time_ms,
  CASE
    WHEN declared_orderly AND lock_max_live_time_ms < 3 * lock_interval_ms
    THEN ['OG-L01']
    ELSE TRY_CAST([] AS TEXT[])
  END AS violated_invariants,
  broker_count,
  produce_tps,
  consume_tps,
  get_tps,
  master_get_tps,
  slave_get_tps,
  unseen_rate_count,
  reads_moved_to_slave,
  slave_read_broker_names,
  slave_read_since,
  send_back_tps,
  filtered,
  CASE
    WHEN filtered
    AND consumption = 'classic'
    AND unseen_rate_count = 0
    AND consume_tps >= 0.5
    AND NOT get_tps IS NULL
    THEN LEAST(1, get_tps / NULLIF(consume_tps, 0))
  END AS hit_ratio,
  sums[7] AS consumer_offset_total,
  counted_at,
  told_client_count,
  CASE
    WHEN NOT listing_client_count IS NULL
    THEN COALESCE(holding_client_count, 0)
  END AS holding_client_count,
  CASE
    WHEN NOT listing_client_count IS NULL
    THEN GREATEST(listing_client_count - COALESCE(holding_client_count, 0), 0)
  END AS idle_client_count,
  CASE WHEN NOT listing_client_count IS NULL THEN COALESCE(held_queue_count, 0) END AS held_queue_count,
  CASE WHEN NOT listing_client_count IS NULL THEN COALESCE(locked_queue_count, 0) END AS locked_queue_count,
  CASE
    WHEN NOT listing_client_count IS NULL
    THEN COALESCE(full_cache_queue_count, 0)
  END AS full_cache_queue_count,
  cached_message_count,
  renewal_gap_ms,
  thread_count,
  orderly,
  CASE
    WHEN COALESCE(listing_client_count, 0) < online_client_count
    OR online_client_count IS NULL
    THEN NULL
    WHEN orderly
    THEN LEAST(queue_count, COALESCE(holding_thread_count, 0))
    WHEN NOT orderly
    THEN COALESCE(holding_thread_count, 0)
  END AS parallelism,
  max_reconsume_times,
  consume_ok_tps,
  consume_failed_tps,
  consume_rt_ms,
  newest_client_start_at,
  doubled_client_ids,
  ARRAY_SLICE(silent_client_ids, 1, (
    1 + CAST($most_clients AS BIGINT)
  ) - 1) AS silent_client_ids,
  CASE WHEN own_count > 0 THEN COALESCE(expressions, []) END AS subscription_expressions,
  subscriptions_differ,
  system_group,
  retry_max_times,
  consume_enabled,
  consume_broadcast_enabled,
  consume_message_orderly,
  refusals,
  enabling_options,
  reset_settings,
  which_broker_when_consume_slowly,
  members_differ,
  members_differ_since,
  missing_members,
  departures,
  client_stacks,
  retry_message_count,
  retry_growth,
  dead_letter_message_count,
  dead_letter_growth,
  oldest_dead_letter_at,
  uncommitted_at,
  consumption,
  consumption_evidence,
  pop_available,
  pop_inflight,
  pop_inflight_origin,
  pop_unfinished_since,
  lite_topic_count,
  lite_lag,
  suspect_reason,
  in_detail,
  MD5(
    CONCAT_WS(
      CHR(31),
      COALESCE(TRY_CAST(online_client_count AS TEXT), ''),
      COALESCE(client_ids, ''),
      COALESCE(ARRAY_TO_STRING(client_versions, ','), ''),
      COALESCE(message_model, ''),
      COALESCE(TRY_CAST(retry_max_times AS TEXT), ''),
      COALESCE(TRY_CAST(consume_enabled AS TEXT), ''),
      COALESCE(TRY_CAST(consume_broadcast_enabled AS TEXT), ''),
      COALESCE(TRY_CAST(consume_message_orderly AS TEXT), ''),
      COALESCE(TRY_CAST(which_broker_when_consume_slowly AS TEXT), '')
    )
  ) AS seen_digest,
  MD5(
    NULLIF(
      CONCAT_WS(
        CHR(31),
        COALESCE(client_starts, ''),
        COALESCE(CASE WHEN own_count > 0 THEN ARRAY_TO_STRING(expressions, ',') END, ''),
        COALESCE(TRY_CAST(max_reconsume_times AS TEXT), '')
      ),
      CHR(31) || CHR(31)
    )
  ) AS told_digest,
  baseline_tps,
  baseline_spread_tps,
  baseline_week_count
FROM rated_and_bounded
INNER JOIN intervals
  USING (cluster)
LEFT JOIN settings
  USING (cluster, consumer_group)
LEFT JOIN kinds
  USING (cluster, topic)
LEFT JOIN group_clients
  USING (cluster, consumer_group)
LEFT JOIN subscribed
  USING (cluster, consumer_group, topic)
LEFT JOIN topic_clients
  USING (cluster, consumer_group, topic)
LEFT JOIN baselines
  USING (cluster, consumer_group, topic)
