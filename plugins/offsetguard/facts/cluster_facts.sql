-- `cluster_facts`: the sums over the cluster's brokers, and what its topics and groups have in all.
--
-- Only of clusters of which something was seen. Sums are over what is known, and NULL when nothing is; counts of topics
-- and groups are NULL where a master did not answer, which may have some that no other one has.
WITH brokers AS (
  SELECT
    cluster,
    COUNT(DISTINCT broker_name) AS broker_count,
    NULLIF(COUNT(CASE WHEN listed THEN 1 END), 0) AS replica_count,
    CASE WHEN MAX(listed) THEN COUNT(CASE WHEN answered THEN 1 END) END AS answered_replica_count,
    COUNT(DISTINCT CASE WHEN listed THEN broker_name END)
    = COUNT(DISTINCT CASE WHEN listed AND broker_id = 0 AND answered THEN broker_name END) AS masters_answered,
    SUM(consumed_queue_count) AS consumed_queue_count,
    SUM(unknown_queue_count) AS unknown_queue_count,
    SUM(suspect_queue_count) AS suspect_queue_count,
    SUM(topic_queue_count) AS topic_queue_count,
    SUM(message_count) AS message_count,
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
    CAST(SUM(CASE WHEN broker_id = 0 THEN TRY_CAST(put_tps AS DECIMAL(28, 6)) END) AS DOUBLE) AS put_tps,
    CAST(SUM(TRY_CAST(get_tps AS DECIMAL(28, 6))) AS DOUBLE) AS get_tps,
    CAST(SUM(CASE WHEN broker_id <> 0 THEN TRY_CAST(get_tps AS DECIMAL(28, 6)) END) AS DOUBLE) AS slave_get_tps,
    MAX(commit_log_disk_ratio) AS max_disk_ratio,
    MAX(CASE WHEN broker_id <> 0 THEN slave_behind_bytes END) AS max_slave_behind_bytes
  FROM replicas
  GROUP BY cluster
),

topics AS (
  SELECT
    cluster,
    COUNT(DISTINCT topic) AS topic_count
  FROM kept
  GROUP BY cluster
),

groups_of_cluster AS (
  SELECT
    cluster,
    COUNT(*) AS consumer_group_count,
    COUNT(CASE WHEN online_client_count > 0 THEN 1 END) AS online_group_count,
    COUNT(CASE WHEN online_client_count IS NULL THEN 1 END) AS unseen_group_count,
    SUM(CAST(retry_growth AS DECIMAL(28, 0))) AS retry_growth,
    SUM(CAST(dead_letter_growth AS DECIMAL(28, 0))) AS dead_letter_growth
  FROM group_snapshots
  GROUP BY cluster
),

bounded AS (
  SELECT
    *,
    -- no more than a column holds; CASE, because GREATEST and LEAST skip what is unknown
    TRANSFORM(
      ARRAY(
        message_count, lag, effective_lag, inflight, available, lost, beyond_end, retry_growth, dead_letter_growth
      ),
      x -> CASE
        WHEN x IS NOT NULL THEN CAST(LEAST(GREATEST(x, -9223372036854775808), 9223372036854775807) AS BIGINT)
      END
    ) AS sums
  FROM brokers
  FULL OUTER JOIN topics USING (cluster)
  FULL OUTER JOIN groups_of_cluster USING (cluster)
)

SELECT
  cluster,
  intervals.interval_start,
  CAST(broker_count AS INT) AS broker_count,
  CAST(replica_count AS INT) AS replica_count,
  CAST(answered_replica_count AS INT) AS answered_replica_count,
  CASE WHEN masters_answered THEN CAST(COALESCE(topic_count, 0) AS INT) END AS topic_count,
  CASE WHEN masters_answered THEN CAST(COALESCE(consumer_group_count, 0) AS INT) END AS consumer_group_count,
  CASE
    WHEN masters_answered AND COALESCE(unseen_group_count, 0) = 0 THEN CAST(COALESCE(online_group_count, 0) AS INT)
  END AS online_group_count,
  CAST(consumed_queue_count AS INT) AS consumed_queue_count,
  CAST(unknown_queue_count AS INT) AS unknown_queue_count,
  CAST(suspect_queue_count AS INT) AS suspect_queue_count,
  CAST(topic_queue_count AS INT) AS topic_queue_count,
  sums[0] AS message_count,
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
  put_tps,
  get_tps,
  slave_get_tps,
  sums[7] AS retry_growth,
  sums[8] AS dead_letter_growth,
  max_disk_ratio,
  max_slave_behind_bytes
FROM bounded
INNER JOIN intervals USING (cluster)
