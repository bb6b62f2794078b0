-- Every queue of the interval with its lags in messages, whether it is suspect, and its producer's curve, which
-- `time_lags` reads.
--
-- Reads `queue_state` after the interval's fold: its rows have the interval's sample and the window beside it. Queues
-- that the snapshot does not have keep an older `interval_start`, and are in no fact. `intervals` says of each cluster
-- its `interval_start`, and `now`: its end, up to which the window counts. Ages count up to the reading (`as_of_ms`):
-- what was read may have been consumed a moment later, and the interval ends up to a minute later.
--
-- Suspect = not provably healthy. Healthy: the order min <= consumer <= pull <= max is not broken (pairs with a NULL
-- side do not break it), nothing waits, and the window holds nothing of the kind. That nothing waits is known in one of
-- two ways: effective lag is 0; or never committed (the broker's table of committed offsets was seen and has no entry
-- for the queue) on an empty queue. The window holds something when, within it, something was lost, in disorder,
-- recreated or rewound; when a rewind, however old, was not regained; or when the newest sample was not seen.
WITH differing AS (
  -- of groups whose clients subscribe differently every queue is looked at
  SELECT
    cluster,
    consumer_group,
    subscriptions_differ
  FROM group_clients
  WHERE subscriptions_differ
),

in_messages AS (
  SELECT
    queue_state.*,
    now,
    subscriptions_differ,
    max_offset - consumer_offset AS lag,
    -- GREATEST skips NULL: of an unknown min, consumer is left; an unknown consumer must stay unknown
    max_offset - CASE WHEN consumer_offset IS NOT NULL THEN GREATEST(consumer_offset, min_offset) END AS effective_lag,
    pull_offset - consumer_offset AS inflight,
    max_offset - pull_offset AS available,
    CASE WHEN consumer_offset IS NOT NULL AND min_offset IS NOT NULL THEN GREATEST(min_offset - consumer_offset, 0) END
      AS lost,
    CASE
      WHEN consumer_offset IS NOT NULL AND max_offset IS NOT NULL THEN GREATEST(consumer_offset - max_offset, 0)
    END AS beyond_end,
    consumer_offset IS NULL AND consumer_offset_read_at IS NOT NULL AS never_committed
  FROM queue_state
  INNER JOIN intervals USING (cluster, interval_start)
  LEFT JOIN differing USING (cluster, consumer_group)
)

SELECT
  in_messages.*,
  CAST(FLOOR(UNIX_MICROS(COALESCE(max_offset_read_at, now)) / 1000) AS BIGINT) AS as_of_ms,
  CAST(FLOOR(UNIX_MICROS(unbroken_since) / 1000) AS BIGINT) AS unbroken_since_ms,
  COALESCE(
    min_offset > consumer_offset OR consumer_offset > pull_offset OR consumer_offset > max_offset
    OR pull_offset > max_offset OR min_offset > max_offset,
    FALSE
  )
  OR NOT COALESCE(effective_lag = 0 OR (never_committed AND min_offset = max_offset), FALSE)
  OR COALESCE(UNIX_MICROS(now) - UNIX_MICROS(lost_at) <= :window_us, FALSE)
  OR COALESCE(UNIX_MICROS(now) - UNIX_MICROS(disordered_at) <= :window_us, FALSE)
  OR COALESCE(UNIX_MICROS(now) - UNIX_MICROS(recreated_at) <= :window_us, FALSE)
  OR COALESCE(UNIX_MICROS(now) - UNIX_MICROS(rewound_at) <= :window_us, FALSE)
  OR (rewound_at IS NOT NULL AND regained_at IS NULL)
  OR unknown_count > 0 AS suspect,
  -- Of which offsets the age is of interest: the first that can be read, the pulled, the committed, the oldest one.
  ARRAY(GREATEST(consumer_offset, min_offset), pull_offset, consumer_offset, min_offset) AS places,
  -- Oldest first, neither offsets nor times going back; of the newest flat stretch its first and its last point.
  -- Nobody looks at the curve of a queue of which nothing waits and nothing was lost.
  CASE
    WHEN effective_lag > 0 OR available > 0 OR lost > 0 THEN TRANSFORM(
      FILTER(
        ARRAY(
          STRUCT(point_5_max_offset AS max_offset, point_5_at AS at),
          STRUCT(point_4_max_offset AS max_offset, point_4_at AS at),
          STRUCT(point_3_max_offset AS max_offset, point_3_at AS at),
          STRUCT(point_2_max_offset AS max_offset, point_2_at AS at),
          STRUCT(point_1_max_offset AS max_offset, point_1_at AS at),
          STRUCT(seen_max_offset AS max_offset, max_unchanged_since AS at),
          STRUCT(seen_max_offset AS max_offset, seen_at AS at)
        ),
        x -> x.max_offset < seen_max_offset OR x.at = seen_at OR x.at = max_unchanged_since
      ),
      x -> STRUCT(x.max_offset AS max_offset, CAST(FLOOR(UNIX_MICROS(x.at) / 1000) AS BIGINT) AS at_ms)
    )
  END AS points
FROM in_messages
