-- Every queue of the interval with its lags in messages, and its producer's curve: what `time_lags` reads.
--
-- Reads `queue_state` after the interval's fold: its rows have the interval's sample and the window beside it. Queues
-- that the snapshot does not have keep an older `interval_start`, and are in no fact. `intervals`: for each cluster, its
-- interval_start and now, the moment up to which ages count.
WITH in_messages AS (
  SELECT
    queue_state.*,
    now,
    max_offset - consumer_offset AS lag,
    -- GREATEST skips NULL: of an unknown min, consumer is left; an unknown consumer must stay unknown
    max_offset - CASE WHEN consumer_offset IS NOT NULL THEN GREATEST(consumer_offset, min_offset) END AS effective_lag,
    pull_offset - consumer_offset AS inflight,
    max_offset - pull_offset AS available,
    CASE WHEN consumer_offset IS NOT NULL AND min_offset IS NOT NULL THEN GREATEST(min_offset - consumer_offset, 0) END
      AS lost
  FROM queue_state
  INNER JOIN intervals USING (cluster, interval_start)
)
SELECT
  in_messages.*,
  CAST(FLOOR(UNIX_MICROS(now) / 1000) AS BIGINT) AS now_ms,
  -- Of which offsets the age is of interest: the first that can be read, the pulled, the committed, the oldest one.
  ARRAY(GREATEST(consumer_offset, min_offset), pull_offset, consumer_offset, min_offset) AS places,
  -- Oldest first, neither offsets nor times going back; of the newest flat stretch its first and its last point.
  -- Nobody looks at the curve of a queue of which nothing waits and nothing was lost.
  CASE WHEN effective_lag > 0 OR available > 0 OR lost > 0 THEN TRANSFORM(
    FILTER(
      ARRAY(
        STRUCT(CASE WHEN point_5_max_offset < seen_max_offset THEN point_5_at END AS at, point_5_max_offset AS max_offset),
        STRUCT(CASE WHEN point_4_max_offset < seen_max_offset THEN point_4_at END AS at, point_4_max_offset AS max_offset),
        STRUCT(CASE WHEN point_3_max_offset < seen_max_offset THEN point_3_at END AS at, point_3_max_offset AS max_offset),
        STRUCT(CASE WHEN point_2_max_offset < seen_max_offset THEN point_2_at END AS at, point_2_max_offset AS max_offset),
        STRUCT(CASE WHEN point_1_max_offset < seen_max_offset THEN point_1_at END AS at, point_1_max_offset AS max_offset),
        STRUCT(CASE WHEN max_unchanged_since < seen_at THEN max_unchanged_since END AS at, seen_max_offset AS max_offset),
        STRUCT(seen_at AS at, seen_max_offset AS max_offset)
      ),
      x -> x.at IS NOT NULL
    ),
    x -> STRUCT(x.max_offset AS max_offset, CAST(FLOOR(UNIX_MICROS(x.at) / 1000) AS BIGINT) AS at_ms)
  ) END AS points
FROM in_messages
