-- Made of ../time_lags.sql by `make facts-sql`: change that file.
SELECT
  *,
  LIST_TRANSFORM(
    LIST_TRANSFORM(
      LIST_TRANSFORM(
        LIST_TRANSFORM(
          places,
          LAMBDA x : {'place': x, 'below': ARRAY_LENGTH(LIST_FILTER(points, LAMBDA p : p.max_offset <= x))}
        ),
        LAMBDA x : {'place': x.place, 'below': x.below, 'p1': points[GREATEST(x.below, 1)], 'p2': points[CASE WHEN x.below > 0 THEN x.below + 1 ELSE GREATEST(ARRAY_LENGTH(points), 1) END]}
      ),
      LAMBDA x : {'place': x.place, 'below': x.below, 'from_ms': x.p1.at_ms, 'span_ms': x.p2.at_ms - x.p1.at_ms, 'share': CASE
        WHEN x.p2.max_offset <> x.p1.max_offset
        THEN TRY_CAST(x.place - x.p1.max_offset AS DOUBLE) / NULLIF(TRY_CAST(x.p2.max_offset - x.p1.max_offset AS DOUBLE), 0)
      END}
    ),
    LAMBDA x : CASE
      WHEN x.place IS NULL
      THEN {'lag_ms': TRY_CAST(NULL AS BIGINT), 'basis': 'offset_unknown'}
      WHEN COALESCE(ARRAY_LENGTH(points), 0) <= 0
      THEN {'lag_ms': TRY_CAST(NULL AS BIGINT), 'basis': 'curve_unknown'}
      WHEN x.below = ARRAY_LENGTH(points)
      THEN {'lag_ms': TRY_CAST(0 AS BIGINT), 'basis': 'end_reached'}
      WHEN x.below = 0 AND (
        x.share IS NULL OR x.share < -1
      )
      THEN {'lag_ms': TRY_CAST(NULL AS BIGINT), 'basis': 'before_curve'}
      WHEN x.from_ms < unbroken_since_ms
      AND x.from_ms + x.span_ms >= unbroken_since_ms
      AND as_of_ms - x.from_ms - x.share * TRY_CAST(x.span_ms AS DOUBLE) > 60000
      THEN {'lag_ms': TRY_CAST(NULL AS BIGINT), 'basis': 'rounds_missed'}
      ELSE {'lag_ms': GREATEST(
        0,
        as_of_ms - x.from_ms - TRY_CAST(FLOOR(x.share * TRY_CAST(x.span_ms AS DOUBLE)) AS BIGINT)
      ), 'basis': CASE WHEN x.below > 0 THEN 'interpolated' ELSE 'extrapolated' END}
    END
  ) AS ages
FROM queue_curves
