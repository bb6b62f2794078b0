-- How old the messages at some offsets are: `queue_curves` with `ages`, one for each of its `places`; NULL = unknown.
--
-- A broker tells the age of the message at the committed offset only when it is asked queue by queue. For all other
-- queues the answer lies on the producer curve (`points`): the max offsets of the last samples, each with the time at
-- which it was read. A message that was written between two samples is taken to have been written where the straight
-- line between them says.
--
-- - On a flat stretch, where nothing was written, the latest time counts: the message came after it.
-- - Whoever stands at the newest point, or beyond it, has nothing to wait for: 0.
-- - Before the curve there is one extrapolation, along the line from the first point to the last, and by no more than
--   the time that the curve spans; what lies further back is unknown: NULL, never infinite.
-- - Across rounds that were missed (before `unbroken_since_ms`, and after it) the line says little: a broker that was
--   away wrote nothing for a while, and all of it before or after that. Unknown, but for the last minute of the line.
--
-- To be read from the innermost step outwards; each is a step of its own, because a formula that is used in several
-- places is computed in each of them. They stand in one SELECT: each more is planned with all columns again.
SELECT
  *,
  -- 4. the age there, and what says so
  TRANSFORM(
    -- 3. where on the line: 0 = at its first point, 1 = at its last, below 0 = before both
    TRANSFORM(
      -- 2. the line between the last of these points and the next one; before the curve: from its first to its last
      TRANSFORM(
        -- 1. `below`: points that are not above the place
        TRANSFORM(
          places,
          x -> STRUCT(x AS place, SIZE(FILTER(points, p -> p.max_offset <= x)) AS below)
        ),
        x -> STRUCT(
          x.place AS place,
          x.below AS below,
          TRY_ELEMENT_AT(points, GREATEST(x.below, 1)) AS p1,
          TRY_ELEMENT_AT(points, CASE WHEN x.below > 0 THEN x.below + 1 ELSE GREATEST(SIZE(points), 1) END) AS p2
        )
      ),
      x -> STRUCT(
        x.place AS place,
        x.below AS below,
        x.p1.at_ms AS from_ms,
        x.p2.at_ms - x.p1.at_ms AS span_ms,
        CASE
          WHEN x.p2.max_offset <> x.p1.max_offset
            THEN CAST(x.place - x.p1.max_offset AS DOUBLE) / CAST(x.p2.max_offset - x.p1.max_offset AS DOUBLE)
        END AS share
      )
    ),
    x -> CASE
      WHEN x.place IS NULL THEN STRUCT(CAST(NULL AS BIGINT) AS lag_ms, 'offset_unknown' AS basis)
      WHEN COALESCE(SIZE(points), 0) <= 0 THEN STRUCT(CAST(NULL AS BIGINT) AS lag_ms, 'curve_unknown' AS basis)
      WHEN x.below = SIZE(points) THEN STRUCT(CAST(0 AS BIGINT) AS lag_ms, 'end_reached' AS basis)
      WHEN x.below = 0 AND (x.share IS NULL OR x.share < -1)
        THEN STRUCT(CAST(NULL AS BIGINT) AS lag_ms, 'before_curve' AS basis)
      WHEN
        x.from_ms < unbroken_since_ms AND x.from_ms + x.span_ms >= unbroken_since_ms
        AND as_of_ms - x.from_ms - x.share * CAST(x.span_ms AS DOUBLE) > 60000
        THEN STRUCT(CAST(NULL AS BIGINT) AS lag_ms, 'rounds_missed' AS basis)
      ELSE STRUCT(
        GREATEST(0, as_of_ms - x.from_ms - CAST(FLOOR(x.share * CAST(x.span_ms AS DOUBLE)) AS BIGINT)) AS lag_ms,
        CASE WHEN x.below > 0 THEN 'interpolated' ELSE 'extrapolated' END AS basis
      )
    END
  ) AS ages
FROM queue_curves
