-- Every queue of the interval: its sample and window (the columns of `queue_state`), whether it is suspect, its lags in
-- messages and in time, and its rates. `pairs` adds them up, `queue_facts` has the suspects.
WITH told AS (
  SELECT
    *,
    CASE
      WHEN effective_lag <= 0 THEN 0
      -- what the broker tells of the oldest unconsumed message is preferred to the curve
      WHEN effective_lag > 0 AND oldest_unconsumed_at IS NOT NULL
        THEN GREATEST(0, as_of_ms - CAST(FLOOR(UNIX_MICROS(oldest_unconsumed_at) / 1000) AS BIGINT))
      WHEN effective_lag > 0 THEN ages[0].lag_ms
    END AS lag_ms,
    CASE
      WHEN effective_lag <= 0 THEN 'end_reached'
      WHEN effective_lag > 0 AND oldest_unconsumed_at IS NOT NULL THEN 'measured'
      WHEN effective_lag > 0 AND ages[0].lag_ms IS NOT NULL THEN ages[0].basis
    END AS lag_ms_basis,
    CASE WHEN available <= 0 THEN 0 WHEN available > 0 THEN ages[1].lag_ms END AS available_ms,
    -- the difference of two ages; GREATEST would skip one that is unknown
    CASE
      WHEN lost <= 0 THEN 0
      WHEN lost > 0 AND ages[2].lag_ms IS NOT NULL AND ages[3].lag_ms IS NOT NULL
        THEN GREATEST(0, ages[2].lag_ms - ages[3].lag_ms)
    END AS lost_ms,
    -- between the newest two seen samples; those of before say nothing when the newest was not seen, or rounds were
    -- missed
    CASE
      WHEN unknown_count = 0 AND sample_count > 1 THEN CAST(UNIX_MICROS(seen_at) - UNIX_MICROS(point_1_at) AS DOUBLE)
    END AS between_us
  FROM time_lags
)

SELECT
  *,
  CASE
    WHEN inflight <= 0 THEN 0
    WHEN inflight > 0 AND lag_ms IS NOT NULL AND available_ms IS NOT NULL THEN GREATEST(0, lag_ms - available_ms)
  END AS inflight_ms,
  CAST(seen_max_offset - point_1_max_offset AS DOUBLE) * 1000000 / between_us AS produce_tps,
  CASE
    WHEN committed_offset >= point_1_committed_offset
      THEN CAST(committed_offset - point_1_committed_offset AS DOUBLE) * 1000000 / between_us
  END AS consume_tps
FROM told
