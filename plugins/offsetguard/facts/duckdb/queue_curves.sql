-- Made of ../queue_curves.sql by `make facts-sql`: change that file.
WITH differing AS (
  SELECT
    cluster,
    consumer_group,
    subscriptions_differ
  FROM group_clients
  WHERE
    subscriptions_differ
), in_messages AS (
  SELECT
    queue_state.*,
    now,
    subscriptions_differ,
    max_offset - consumer_offset AS lag,
    max_offset - CASE
      WHEN NOT consumer_offset IS NULL
      THEN GREATEST(consumer_offset, min_offset)
    END AS effective_lag,
    pull_offset - consumer_offset AS inflight,
    max_offset - pull_offset AS available,
    CASE
      WHEN NOT consumer_offset IS NULL AND NOT min_offset IS NULL
      THEN GREATEST(min_offset - consumer_offset, 0)
    END AS lost,
    CASE
      WHEN NOT consumer_offset IS NULL AND NOT max_offset IS NULL
      THEN GREATEST(consumer_offset - max_offset, 0)
    END AS beyond_end,
    consumer_offset IS NULL AND NOT consumer_offset_read_at IS NULL AS never_committed
  FROM queue_state
  INNER JOIN intervals
    USING (cluster, interval_start)
  LEFT JOIN differing
    USING (cluster, consumer_group)
)
SELECT
  in_messages.*,
  TRY_CAST(FLOOR(EPOCH_US(COALESCE(max_offset_read_at, now)) / NULLIF(1000, 0)) AS BIGINT) AS as_of_ms,
  TRY_CAST(FLOOR(EPOCH_US(unbroken_since) / NULLIF(1000, 0)) AS BIGINT) AS unbroken_since_ms,
  COALESCE(
    min_offset > consumer_offset
    OR consumer_offset > pull_offset
    OR consumer_offset > max_offset
    OR pull_offset > max_offset
    OR min_offset > max_offset,
    FALSE
  )
  OR NOT COALESCE(effective_lag = 0 OR (
    never_committed AND min_offset = max_offset
  ), FALSE)
  OR COALESCE(EPOCH_US(now) - EPOCH_US(lost_at) <= $window_us, FALSE)
  OR COALESCE(EPOCH_US(now) - EPOCH_US(disordered_at) <= $window_us, FALSE)
  OR COALESCE(EPOCH_US(now) - EPOCH_US(recreated_at) <= $window_us, FALSE)
  OR COALESCE(EPOCH_US(now) - EPOCH_US(rewound_at) <= $window_us, FALSE)
  OR (
    NOT rewound_at IS NULL AND regained_at IS NULL
  )
  OR unknown_count > 0 AS suspect,
  [GREATEST(consumer_offset, min_offset), pull_offset, consumer_offset, min_offset] AS places,
  CASE
    WHEN effective_lag > 0 OR available > 0 OR lost > 0
    THEN LIST_TRANSFORM(
      LIST_FILTER(
        [
          {'max_offset': point_5_max_offset, 'at': point_5_at},
          {'max_offset': point_4_max_offset, 'at': point_4_at},
          {'max_offset': point_3_max_offset, 'at': point_3_at},
          {'max_offset': point_2_max_offset, 'at': point_2_at},
          {'max_offset': point_1_max_offset, 'at': point_1_at},
          {'max_offset': seen_max_offset, 'at': max_unchanged_since},
          {'max_offset': seen_max_offset, 'at': seen_at}
        ],
        LAMBDA x : x.max_offset < seen_max_offset OR x."at" = seen_at OR x."at" = max_unchanged_since
      ),
      LAMBDA x : {'max_offset': x.max_offset, 'at_ms': TRY_CAST(FLOOR(EPOCH_US(x."at") / NULLIF(1000, 0)) AS BIGINT)}
    )
  END AS points
FROM in_messages
