-- Made of ../queue_figures.sql by `make facts-sql`: change that file.
WITH told AS (
  SELECT
    *,
    CASE
      WHEN effective_lag <= 0
      THEN 0
      WHEN effective_lag > 0 AND NOT oldest_unconsumed_at IS NULL
      THEN GREATEST(
        0,
        as_of_ms - TRY_CAST(FLOOR(EPOCH_US(oldest_unconsumed_at) / NULLIF(1000, 0)) AS BIGINT)
      )
      WHEN effective_lag > 0
      THEN ages[1].lag_ms
    END AS lag_ms,
    CASE
      WHEN effective_lag <= 0
      THEN 'end_reached'
      WHEN effective_lag > 0 AND NOT oldest_unconsumed_at IS NULL
      THEN 'measured'
      WHEN effective_lag > 0 AND NOT ages[1].lag_ms IS NULL
      THEN ages[1].basis
    END AS lag_ms_basis,
    CASE WHEN available <= 0 THEN 0 WHEN available > 0 THEN ages[2].lag_ms END AS available_ms,
    CASE
      WHEN lost <= 0
      THEN 0
      WHEN lost > 0 AND NOT ages[3].lag_ms IS NULL AND NOT ages[4].lag_ms IS NULL
      THEN GREATEST(0, ages[3].lag_ms - ages[4].lag_ms)
    END AS lost_ms,
    CASE
      WHEN unknown_count = 0 AND sample_count > 1
      THEN TRY_CAST(EPOCH_US(seen_at) - EPOCH_US(point_1_at) AS DOUBLE)
    END AS between_us
  FROM time_lags
)
SELECT
  *,
  CASE
    WHEN inflight <= 0
    THEN 0
    WHEN inflight > 0 AND NOT lag_ms IS NULL AND NOT available_ms IS NULL
    THEN GREATEST(0, lag_ms - available_ms)
  END AS inflight_ms,
  TRY_CAST(seen_max_offset - point_1_max_offset AS DOUBLE) * 1000000 / NULLIF(between_us, 0) AS produce_tps,
  CASE
    WHEN committed_offset >= point_1_committed_offset
    THEN TRY_CAST(committed_offset - point_1_committed_offset AS DOUBLE) * 1000000 / NULLIF(between_us, 0)
  END AS consume_tps
FROM told
