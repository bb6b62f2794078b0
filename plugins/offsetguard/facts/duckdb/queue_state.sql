-- Made of ../queue_state.sql by `make facts-sql`: change that file.
WITH folded AS (
  SELECT
    cluster,
    broker_name,
    topic,
    queue_id,
    consumer_group,
    CASE
      WHEN sample.interval_start IS NULL OR sample.interval_start <= before.interval_start
      THEN 'late'
      WHEN before.interval_start IS NULL
      OR EPOCH_US(sample.interval_start) - EPOCH_US(before.interval_start) >= $kept_for_us
      THEN CASE
        WHEN sample.max_offset_read_at IS NULL
        OR sample.max_offset IS NULL
        OR sample.consumer_offset_read_at IS NULL
        THEN 'unseen first'
        ELSE 'first'
      END
      WHEN sample.max_offset_read_at IS NULL
      OR sample.max_offset IS NULL
      OR sample.consumer_offset_read_at IS NULL
      OR sample.max_offset_read_at <= before.seen_at
      THEN 'unseen'
      WHEN before.seen_at IS NULL
      THEN 'first'
      WHEN sample.max_offset < before.seen_max_offset
      THEN 'recreated'
      ELSE 'next'
    END AS kind,
    EPOCH_US(sample.max_offset_read_at) - EPOCH_US(before.seen_at) <= $window_us AS within_window,
    COALESCE(
      EPOCH_US(sample.max_offset_read_at) - EPOCH_US(before.seen_at) > $missed_us
      AND (
        before.point_1_at IS NULL
        OR (
          EPOCH_US(sample.max_offset_read_at) - EPOCH_US(before.seen_at)
        ) * 2 > (
          EPOCH_US(before.seen_at) - EPOCH_US(before.point_1_at)
        ) * 5
      ),
      FALSE
    ) AS missed,
    COALESCE(
      sample.consumer_offset = before.committed_offset
      AND before.committed_offset <> before.seen_max_offset,
      sample.consumer_offset IS NULL AND before.committed_offset IS NULL
    ) AS stands_still,
    EPOCH_US(sample.max_offset_read_at) // $window_us - EPOCH_US(before.seen_at) // $window_us AS windows_on,
    sample.min_offset > before.seen_min_offset AS min_moved,
    NOT sample.consumer_offset IS NULL
    AND (
      before.committed_offset IS NULL
      OR sample.consumer_offset > before.committed_offset
    ) AS advanced,
    sample.consumer_offset < before.committed_offset
    AND before.committed_offset > sample.max_offset AS corrected,
    sample.consumer_offset < before.committed_offset
    AND before.committed_offset <= sample.max_offset AS rewound,
    GREATEST(before.advanced_at, before.end_reached_at, before.first_seen_at) AS silent_since,
    NOT before.rewound_at IS NULL AND before.regained_at IS NULL AS rewind_open,
    CASE
      WHEN NOT sample.consumer_offset IS NULL
      THEN sample.max_offset <= GREATEST(sample.consumer_offset, sample.min_offset)
      ELSE sample.min_offset = sample.max_offset
    END AS nothing_waits,
    sample.consumer_offset < sample.min_offset AS loses,
    sample.consumer_offset <= sample.max_offset AS within_end,
    sample.consumer_offset > sample.max_offset
    AND before.committed_offset <= before.seen_max_offset AS set_beyond,
    sample.consumer_offset > LEAST(sample.pull_offset, sample.max_offset)
    OR GREATEST(sample.pull_offset, sample.min_offset) > sample.max_offset AS disordered,
    CASE
      WHEN EPOCH_US(before.point_1_at) - EPOCH_US(before.point_2_at) < TRY_CAST(2 AS BIGINT) * $window_us // 30
      THEN 1
      WHEN EPOCH_US(before.point_2_at) - EPOCH_US(before.point_3_at) < TRY_CAST(8 AS BIGINT) * $window_us // 30
      THEN 2
      WHEN EPOCH_US(before.point_3_at) - EPOCH_US(before.point_4_at) < TRY_CAST(20 AS BIGINT) * $window_us // 30
      THEN 3
      ELSE 5
    END AS moving,
    kind = 'late' AS is_late,
    kind = 'next' AS goes_on,
    kind = 'recreated' AS recreated,
    kind = 'first' OR kind = 'recreated' AS starts,
    kind = 'late' OR kind = 'unseen' AS stays,
    within_window AND NOT missed AS unbroken,
    missed AND stands_still AS stood_still,
    CASE WHEN windows_on = 0 THEN before.longest_pause_ms END AS longest_so_far_ms,
    CASE
      WHEN kind = 'next' AND advanced AND NOT missed AND silent_since >= before.unbroken_since
      THEN (
        EPOCH_US(sample.max_offset_read_at) - EPOCH_US(silent_since)
      ) // 1000
    END AS pause_ms,
    CASE WHEN is_late THEN before.interval_start ELSE sample.interval_start END AS interval_start,
    CASE WHEN is_late THEN before.min_offset ELSE sample.min_offset END AS min_offset,
    CASE WHEN is_late THEN before.max_offset ELSE sample.max_offset END AS max_offset,
    CASE WHEN is_late THEN before.consumer_offset ELSE sample.consumer_offset END AS consumer_offset,
    CASE WHEN is_late THEN before.pull_offset ELSE sample.pull_offset END AS pull_offset,
    CASE WHEN is_late THEN before.last_timestamp ELSE sample.last_timestamp END AS last_timestamp,
    CASE
      WHEN is_late
      THEN before.oldest_unconsumed_at
      ELSE sample.oldest_unconsumed_at
    END AS oldest_unconsumed_at,
    CASE
      WHEN is_late
      THEN before.consumer_offset_read_at
      ELSE sample.consumer_offset_read_at
    END AS consumer_offset_read_at,
    CASE
      WHEN is_late
      THEN before.pull_offset_read_at
      ELSE sample.pull_offset_read_at
    END AS pull_offset_read_at,
    CASE WHEN is_late THEN before.max_offset_read_at ELSE sample.max_offset_read_at END AS max_offset_read_at,
    CASE WHEN is_late THEN before.origin ELSE sample.origin END AS origin,
    CASE
      WHEN goes_on OR starts
      THEN sample.max_offset_read_at
      WHEN stays
      THEN before.seen_at
    END AS seen_at,
    CASE
      WHEN goes_on
      THEN COALESCE(sample.min_offset, before.seen_min_offset)
      WHEN starts
      THEN sample.min_offset
      WHEN stays
      THEN before.seen_min_offset
    END AS seen_min_offset,
    CASE
      WHEN goes_on OR starts
      THEN sample.max_offset
      WHEN stays
      THEN before.seen_max_offset
    END AS seen_max_offset,
    CASE
      WHEN goes_on
      THEN COALESCE(sample.consumer_offset, before.committed_offset)
      WHEN starts
      THEN sample.consumer_offset
      WHEN stays
      THEN before.committed_offset
    END AS committed_offset,
    CASE
      WHEN starts OR (
        goes_on AND NOT unbroken AND NOT stood_still
      )
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.first_seen_at
    END AS first_seen_at,
    CASE
      WHEN starts OR (
        goes_on AND NOT unbroken
      )
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.unbroken_since
    END AS unbroken_since,
    CASE
      WHEN starts OR (
        goes_on AND NOT unbroken
      )
      THEN 1
      WHEN goes_on
      THEN before.sample_count + 1
      WHEN stays
      THEN before.sample_count
      ELSE 0
    END AS sample_count,
    CASE
      WHEN goes_on OR starts
      THEN 0
      WHEN is_late
      THEN before.unknown_count
      WHEN stays
      THEN before.unknown_count + 1
      ELSE 1
    END AS unknown_count,
    CASE
      WHEN starts OR (
        goes_on AND sample.max_offset <> before.seen_max_offset
      )
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.max_unchanged_since
    END AS max_unchanged_since,
    CASE
      WHEN goes_on AND min_moved
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.min_moved_at
    END AS min_moved_at,
    CASE
      WHEN goes_on AND min_moved
      THEN before.seen_min_offset
      WHEN goes_on OR stays
      THEN before.min_moved_from
    END AS min_moved_from,
    CASE
      WHEN goes_on AND min_moved
      THEN before.min_moved_at
      WHEN goes_on OR stays
      THEN before.earlier_min_moved_at
    END AS earlier_min_moved_at,
    CASE
      WHEN goes_on AND min_moved
      THEN before.min_moved_from
      WHEN goes_on OR stays
      THEN before.earlier_min_moved_from
    END AS earlier_min_moved_from,
    CASE
      WHEN goes_on AND (
        advanced OR corrected
      )
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.advanced_at
    END AS advanced_at,
    CASE
      WHEN (
        goes_on OR starts
      ) AND nothing_waits
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.end_reached_at
    END AS end_reached_at,
    CASE
      WHEN goes_on
      THEN GREATEST(longest_so_far_ms, pause_ms)
      WHEN stays
      THEN before.longest_pause_ms
    END AS longest_pause_ms,
    CASE
      WHEN goes_on AND pause_ms >= COALESCE(longest_so_far_ms, 0)
      THEN sample.max_offset_read_at
      WHEN stays OR (
        goes_on AND windows_on = 0
      )
      THEN before.longest_pause_ended_at
    END AS longest_pause_ended_at,
    CASE
      WHEN stays OR (
        goes_on AND windows_on = 0
      )
      THEN before.earlier_longest_pause_ms
      WHEN goes_on AND windows_on = 1
      THEN before.longest_pause_ms
    END AS earlier_longest_pause_ms,
    CASE
      WHEN stays OR (
        goes_on AND windows_on = 0
      )
      THEN before.earlier_longest_pause_ended_at
      WHEN goes_on AND windows_on = 1
      THEN before.longest_pause_ended_at
    END AS earlier_longest_pause_ended_at,
    CASE
      WHEN goes_on AND rewound
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.rewound_at
    END AS rewound_at,
    CASE
      WHEN goes_on AND rewound
      THEN GREATEST(before.committed_offset, CASE WHEN rewind_open THEN before.rewound_from END)
      WHEN goes_on OR stays
      THEN before.rewound_from
    END AS rewound_from,
    CASE
      WHEN goes_on AND rewound
      THEN LEAST(sample.consumer_offset, CASE WHEN rewind_open THEN before.rewound_to END)
      WHEN goes_on OR stays
      THEN before.rewound_to
    END AS rewound_to,
    CASE
      WHEN goes_on AND rewound
      THEN NULL
      WHEN goes_on AND rewind_open AND sample.consumer_offset >= before.rewound_from
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.regained_at
    END AS regained_at,
    CASE
      WHEN goes_on AND rewound
      THEN CASE
        WHEN EPOCH_US(sample.max_offset_read_at) - EPOCH_US(before.rewound_at) <= $window_us
        THEN before.rewind_count + 1
        ELSE 1
      END
      WHEN goes_on OR stays
      THEN before.rewind_count
    END AS rewind_count,
    CASE
      WHEN (
        goes_on OR starts
      ) AND loses
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.lost_at
    END AS lost_at,
    CASE
      WHEN (
        goes_on OR starts
      ) AND disordered
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.disordered_at
    END AS disordered_at,
    CASE
      WHEN (
        goes_on OR starts
      ) AND within_end
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.within_end_at
    END AS within_end_at,
    CASE
      WHEN goes_on AND set_beyond
      THEN before.seen_at
      WHEN goes_on OR stays
      THEN before.beyond_after
    END AS beyond_after,
    CASE
      WHEN goes_on AND set_beyond
      THEN before.committed_offset
      WHEN goes_on OR stays
      THEN before.beyond_from
    END AS beyond_from,
    CASE
      WHEN recreated
      THEN sample.max_offset_read_at
      WHEN goes_on OR stays
      THEN before.recreated_at
    END AS recreated_at,
    CASE
      WHEN recreated
      THEN before.seen_at
      WHEN goes_on OR stays
      THEN before.recreated_after
    END AS recreated_after,
    CASE
      WHEN recreated
      THEN before.seen_max_offset
      WHEN goes_on OR stays
      THEN before.recreated_from
    END AS recreated_from,
    CASE WHEN goes_on THEN before.seen_at WHEN stays THEN before.point_1_at END AS point_1_at,
    CASE
      WHEN goes_on
      THEN before.seen_max_offset
      WHEN stays
      THEN before.point_1_max_offset
    END AS point_1_max_offset,
    CASE
      WHEN goes_on
      THEN before.committed_offset
      WHEN stays
      THEN before.point_1_committed_offset
    END AS point_1_committed_offset,
    CASE
      WHEN goes_on AND moving >= 2
      THEN before.point_1_at
      WHEN goes_on OR stays
      THEN before.point_2_at
    END AS point_2_at,
    CASE
      WHEN goes_on AND moving >= 2
      THEN before.point_1_max_offset
      WHEN goes_on OR stays
      THEN before.point_2_max_offset
    END AS point_2_max_offset,
    CASE
      WHEN goes_on AND moving >= 2
      THEN before.point_1_committed_offset
      WHEN goes_on OR stays
      THEN before.point_2_committed_offset
    END AS point_2_committed_offset,
    CASE
      WHEN goes_on AND moving >= 3
      THEN before.point_2_at
      WHEN goes_on OR stays
      THEN before.point_3_at
    END AS point_3_at,
    CASE
      WHEN goes_on AND moving >= 3
      THEN before.point_2_max_offset
      WHEN goes_on OR stays
      THEN before.point_3_max_offset
    END AS point_3_max_offset,
    CASE
      WHEN goes_on AND moving >= 3
      THEN before.point_2_committed_offset
      WHEN goes_on OR stays
      THEN before.point_3_committed_offset
    END AS point_3_committed_offset,
    CASE
      WHEN goes_on AND moving >= 4
      THEN before.point_3_at
      WHEN goes_on OR stays
      THEN before.point_4_at
    END AS point_4_at,
    CASE
      WHEN goes_on AND moving >= 4
      THEN before.point_3_max_offset
      WHEN goes_on OR stays
      THEN before.point_4_max_offset
    END AS point_4_max_offset,
    CASE
      WHEN goes_on AND moving >= 4
      THEN before.point_3_committed_offset
      WHEN goes_on OR stays
      THEN before.point_4_committed_offset
    END AS point_4_committed_offset,
    CASE
      WHEN goes_on AND moving >= 5
      THEN before.point_4_at
      WHEN goes_on OR stays
      THEN before.point_5_at
    END AS point_5_at,
    CASE
      WHEN goes_on AND moving >= 5
      THEN before.point_4_max_offset
      WHEN goes_on OR stays
      THEN before.point_5_max_offset
    END AS point_5_max_offset,
    CASE
      WHEN goes_on AND moving >= 5
      THEN before.point_4_committed_offset
      WHEN goes_on OR stays
      THEN before.point_5_committed_offset
    END AS point_5_committed_offset
  FROM queue_state_before AS before
  FULL JOIN queue_snapshots AS sample
    USING (cluster, broker_name, topic, queue_id, consumer_group)
)
SELECT
  cluster,
  interval_start,
  consumer_group,
  topic,
  broker_name,
  queue_id,
  min_offset,
  max_offset,
  consumer_offset,
  pull_offset,
  last_timestamp,
  oldest_unconsumed_at,
  consumer_offset_read_at,
  pull_offset_read_at,
  max_offset_read_at,
  origin,
  seen_at,
  seen_min_offset,
  seen_max_offset,
  committed_offset,
  first_seen_at,
  unbroken_since,
  sample_count,
  unknown_count,
  max_unchanged_since,
  min_moved_at,
  min_moved_from,
  earlier_min_moved_at,
  earlier_min_moved_from,
  advanced_at,
  end_reached_at,
  longest_pause_ms,
  longest_pause_ended_at,
  earlier_longest_pause_ms,
  earlier_longest_pause_ended_at,
  rewound_at,
  rewound_from,
  rewound_to,
  regained_at,
  rewind_count,
  lost_at,
  disordered_at,
  within_end_at,
  beyond_after,
  beyond_from,
  recreated_at,
  recreated_after,
  recreated_from,
  point_1_at,
  point_1_max_offset,
  point_1_committed_offset,
  point_2_at,
  point_2_max_offset,
  point_2_committed_offset,
  point_3_at,
  point_3_max_offset,
  point_3_committed_offset,
  point_4_at,
  point_4_max_offset,
  point_4_committed_offset,
  point_5_at,
  point_5_max_offset,
  point_5_committed_offset
FROM folded
WHERE
  EPOCH_US($interval_start) - EPOCH_US(interval_start) < $kept_for_us
