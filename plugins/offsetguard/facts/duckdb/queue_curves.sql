-- Made of ../queue_curves.sql by `make facts-sql`: change that file.
WITH in_messages AS (
  SELECT
    queue_state.*,
    now,
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
    END AS lost
  FROM queue_state
  INNER JOIN intervals
    USING (cluster, interval_start)
)
SELECT
  in_messages.*,
  TRY_CAST(FLOOR(EPOCH_US(now) / NULLIF(1000, 0)) AS BIGINT) AS now_ms,
  [GREATEST(consumer_offset, min_offset), pull_offset, consumer_offset, min_offset] AS places,
  CASE
    WHEN effective_lag > 0 OR available > 0 OR lost > 0
    THEN LIST_TRANSFORM(
      LIST_FILTER(
        [
          {'at': CASE WHEN point_5_max_offset < seen_max_offset THEN point_5_at END, 'max_offset': point_5_max_offset},
          {'at': CASE WHEN point_4_max_offset < seen_max_offset THEN point_4_at END, 'max_offset': point_4_max_offset},
          {'at': CASE WHEN point_3_max_offset < seen_max_offset THEN point_3_at END, 'max_offset': point_3_max_offset},
          {'at': CASE WHEN point_2_max_offset < seen_max_offset THEN point_2_at END, 'max_offset': point_2_max_offset},
          {'at': CASE WHEN point_1_max_offset < seen_max_offset THEN point_1_at END, 'max_offset': point_1_max_offset},
          {'at': CASE WHEN max_unchanged_since < seen_at THEN max_unchanged_since END, 'max_offset': seen_max_offset},
          {'at': seen_at, 'max_offset': seen_max_offset}
        ],
        LAMBDA x : NOT x."at" IS NULL
      ),
      LAMBDA x : {'max_offset': x.max_offset, 'at_ms': TRY_CAST(FLOOR(EPOCH_US(x."at") / NULLIF(1000, 0)) AS BIGINT)}
    )
  END AS points
FROM in_messages
