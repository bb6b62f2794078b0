-- Made of ../queue_state.sql by `make facts-sql`: change that file.
WITH samples AS (
  SELECT
    cluster,
    broker_name,
    topic,
    queue_id,
    consumer_group,
    COALESCE(
      LIST_SORT(
        ARRAY_AGG(
          {'interval_start': interval_start, 'min_offset': min_offset, 'max_offset': max_offset, 'consumer_offset': consumer_offset, 'pull_offset': pull_offset, 'last_timestamp': last_timestamp, 'oldest_unconsumed_at': oldest_unconsumed_at, 'consumer_offset_read_at': consumer_offset_read_at, 'pull_offset_read_at': pull_offset_read_at, 'max_offset_read_at': max_offset_read_at, 'origin': origin}
        ) FILTER(WHERE {'interval_start': interval_start, 'min_offset': min_offset, 'max_offset': max_offset, 'consumer_offset': consumer_offset, 'pull_offset': pull_offset, 'last_timestamp': last_timestamp, 'oldest_unconsumed_at': oldest_unconsumed_at, 'consumer_offset_read_at': consumer_offset_read_at, 'pull_offset_read_at': pull_offset_read_at, 'max_offset_read_at': max_offset_read_at, 'origin': origin} IS NOT NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    ) AS samples
  FROM queue_snapshots_history
  WHERE
    interval_start BETWEEN $first_interval_start AND $interval_start
  GROUP BY
    cluster,
    broker_name,
    topic,
    queue_id,
    consumer_group
), folded AS (
  SELECT
    cluster,
    broker_name,
    topic,
    queue_id,
    consumer_group,
    LIST_REDUCE(
      samples,
      LAMBDA before, sample : LIST_TRANSFORM(
        [
          {'kind': CASE
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
          END, 'within_window': EPOCH_US(sample.max_offset_read_at) - EPOCH_US(before.seen_at) <= $window_us, 'missed': COALESCE(
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
          ), 'stands_still': COALESCE(
            sample.consumer_offset = before.committed_offset
            AND before.committed_offset <> before.seen_max_offset,
            sample.consumer_offset IS NULL AND before.committed_offset IS NULL
          ), 'windows_on': EPOCH_US(sample.max_offset_read_at) // $window_us - EPOCH_US(before.seen_at) // $window_us, 'min_moved': sample.min_offset > before.seen_min_offset, 'advanced': NOT sample.consumer_offset IS NULL
          AND (
            before.committed_offset IS NULL
            OR sample.consumer_offset > before.committed_offset
          ), 'corrected': sample.consumer_offset < before.committed_offset
          AND before.committed_offset > sample.max_offset, 'rewound': sample.consumer_offset < before.committed_offset
          AND before.committed_offset <= sample.max_offset, 'silent_since': GREATEST(before.advanced_at, before.end_reached_at, before.first_seen_at), 'rewind_open': NOT before.rewound_at IS NULL AND before.regained_at IS NULL, 'nothing_waits': CASE
            WHEN NOT sample.consumer_offset IS NULL
            THEN sample.max_offset <= GREATEST(sample.consumer_offset, sample.min_offset)
            ELSE sample.min_offset = sample.max_offset
          END, 'loses': sample.consumer_offset < sample.min_offset, 'within_end': sample.consumer_offset <= sample.max_offset, 'set_beyond': sample.consumer_offset > sample.max_offset
          AND before.committed_offset <= before.seen_max_offset, 'disordered': sample.consumer_offset > LEAST(sample.pull_offset, sample.max_offset)
          OR GREATEST(sample.pull_offset, sample.min_offset) > sample.max_offset, 'moving': CASE
            WHEN EPOCH_US(before.point_1_at) - EPOCH_US(before.point_2_at) < TRY_CAST(2 AS BIGINT) * $window_us // 30
            THEN 1
            WHEN EPOCH_US(before.point_2_at) - EPOCH_US(before.point_3_at) < TRY_CAST(8 AS BIGINT) * $window_us // 30
            THEN 2
            WHEN EPOCH_US(before.point_3_at) - EPOCH_US(before.point_4_at) < TRY_CAST(20 AS BIGINT) * $window_us // 30
            THEN 3
            ELSE 5
          END}
        ],
        LAMBDA part_1 : LIST_TRANSFORM(
          [
            {'is_late': part_1.kind = 'late', 'goes_on': part_1.kind = 'next', 'recreated': part_1.kind = 'recreated', 'starts': part_1.kind = 'first' OR part_1.kind = 'recreated', 'stays': part_1.kind = 'late' OR part_1.kind = 'unseen', 'unbroken': part_1.within_window AND NOT part_1.missed, 'stood_still': part_1.missed AND part_1.stands_still, 'longest_so_far_ms': CASE WHEN part_1.windows_on = 0 THEN before.longest_pause_ms END, 'pause_ms': CASE
              WHEN part_1.kind = 'next'
              AND part_1.advanced
              AND NOT part_1.missed
              AND part_1.silent_since >= before.unbroken_since
              THEN (
                EPOCH_US(sample.max_offset_read_at) - EPOCH_US(part_1.silent_since)
              ) // 1000
            END}
          ],
          LAMBDA part_2 : {'interval_start': TRY_CAST(CASE WHEN part_2.is_late THEN before.interval_start ELSE sample.interval_start END AS TIMESTAMPTZ), 'min_offset': TRY_CAST(CASE WHEN part_2.is_late THEN before.min_offset ELSE sample.min_offset END AS BIGINT), 'max_offset': TRY_CAST(CASE WHEN part_2.is_late THEN before.max_offset ELSE sample.max_offset END AS BIGINT), 'consumer_offset': TRY_CAST(CASE WHEN part_2.is_late THEN before.consumer_offset ELSE sample.consumer_offset END AS BIGINT), 'pull_offset': TRY_CAST(CASE WHEN part_2.is_late THEN before.pull_offset ELSE sample.pull_offset END AS BIGINT), 'last_timestamp': TRY_CAST(CASE WHEN part_2.is_late THEN before.last_timestamp ELSE sample.last_timestamp END AS TIMESTAMPTZ), 'oldest_unconsumed_at': TRY_CAST(CASE
            WHEN part_2.is_late
            THEN before.oldest_unconsumed_at
            ELSE sample.oldest_unconsumed_at
          END AS TIMESTAMPTZ), 'consumer_offset_read_at': TRY_CAST(CASE
            WHEN part_2.is_late
            THEN before.consumer_offset_read_at
            ELSE sample.consumer_offset_read_at
          END AS TIMESTAMPTZ), 'pull_offset_read_at': TRY_CAST(CASE
            WHEN part_2.is_late
            THEN before.pull_offset_read_at
            ELSE sample.pull_offset_read_at
          END AS TIMESTAMPTZ), 'max_offset_read_at': TRY_CAST(CASE
            WHEN part_2.is_late
            THEN before.max_offset_read_at
            ELSE sample.max_offset_read_at
          END AS TIMESTAMPTZ), 'origin': TRY_CAST(CASE WHEN part_2.is_late THEN before.origin ELSE sample.origin END AS TEXT), 'seen_at': TRY_CAST(CASE
            WHEN part_2.goes_on OR part_2.starts
            THEN sample.max_offset_read_at
            WHEN part_2.stays
            THEN before.seen_at
          END AS TIMESTAMPTZ), 'seen_min_offset': TRY_CAST(CASE
            WHEN part_2.goes_on
            THEN COALESCE(sample.min_offset, before.seen_min_offset)
            WHEN part_2.starts
            THEN sample.min_offset
            WHEN part_2.stays
            THEN before.seen_min_offset
          END AS BIGINT), 'seen_max_offset': TRY_CAST(CASE
            WHEN part_2.goes_on OR part_2.starts
            THEN sample.max_offset
            WHEN part_2.stays
            THEN before.seen_max_offset
          END AS BIGINT), 'committed_offset': TRY_CAST(CASE
            WHEN part_2.goes_on
            THEN COALESCE(sample.consumer_offset, before.committed_offset)
            WHEN part_2.starts
            THEN sample.consumer_offset
            WHEN part_2.stays
            THEN before.committed_offset
          END AS BIGINT), 'first_seen_at': TRY_CAST(CASE
            WHEN part_2.starts
            OR (
              part_2.goes_on AND NOT part_2.unbroken AND NOT part_2.stood_still
            )
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.first_seen_at
          END AS TIMESTAMPTZ), 'unbroken_since': TRY_CAST(CASE
            WHEN part_2.starts OR (
              part_2.goes_on AND NOT part_2.unbroken
            )
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.unbroken_since
          END AS TIMESTAMPTZ), 'sample_count': TRY_CAST(CASE
            WHEN part_2.starts OR (
              part_2.goes_on AND NOT part_2.unbroken
            )
            THEN 1
            WHEN part_2.goes_on
            THEN before.sample_count + 1
            WHEN part_2.stays
            THEN before.sample_count
            ELSE 0
          END AS INT), 'unknown_count': TRY_CAST(CASE
            WHEN part_2.goes_on OR part_2.starts
            THEN 0
            WHEN part_2.is_late
            THEN before.unknown_count
            WHEN part_2.stays
            THEN before.unknown_count + 1
            ELSE 1
          END AS INT), 'max_unchanged_since': TRY_CAST(CASE
            WHEN part_2.starts
            OR (
              part_2.goes_on AND sample.max_offset <> before.seen_max_offset
            )
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.max_unchanged_since
          END AS TIMESTAMPTZ), 'min_moved_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.min_moved
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.min_moved_at
          END AS TIMESTAMPTZ), 'min_moved_from': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.min_moved
            THEN before.seen_min_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.min_moved_from
          END AS BIGINT), 'earlier_min_moved_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.min_moved
            THEN before.min_moved_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.earlier_min_moved_at
          END AS TIMESTAMPTZ), 'earlier_min_moved_from': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.min_moved
            THEN before.min_moved_from
            WHEN part_2.goes_on OR part_2.stays
            THEN before.earlier_min_moved_from
          END AS BIGINT), 'advanced_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND (
              part_1.advanced OR part_1.corrected
            )
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.advanced_at
          END AS TIMESTAMPTZ), 'end_reached_at': TRY_CAST(CASE
            WHEN (
              part_2.goes_on OR part_2.starts
            ) AND part_1.nothing_waits
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.end_reached_at
          END AS TIMESTAMPTZ), 'longest_pause_ms': TRY_CAST(CASE
            WHEN part_2.goes_on
            THEN GREATEST(part_2.longest_so_far_ms, part_2.pause_ms)
            WHEN part_2.stays
            THEN before.longest_pause_ms
          END AS BIGINT), 'longest_pause_ended_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_2.pause_ms >= COALESCE(part_2.longest_so_far_ms, 0)
            THEN sample.max_offset_read_at
            WHEN part_2.stays OR (
              part_2.goes_on AND part_1.windows_on = 0
            )
            THEN before.longest_pause_ended_at
          END AS TIMESTAMPTZ), 'earlier_longest_pause_ms': TRY_CAST(CASE
            WHEN part_2.stays OR (
              part_2.goes_on AND part_1.windows_on = 0
            )
            THEN before.earlier_longest_pause_ms
            WHEN part_2.goes_on AND part_1.windows_on = 1
            THEN before.longest_pause_ms
          END AS BIGINT), 'earlier_longest_pause_ended_at': TRY_CAST(CASE
            WHEN part_2.stays OR (
              part_2.goes_on AND part_1.windows_on = 0
            )
            THEN before.earlier_longest_pause_ended_at
            WHEN part_2.goes_on AND part_1.windows_on = 1
            THEN before.longest_pause_ended_at
          END AS TIMESTAMPTZ), 'rewound_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.rewound
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.rewound_at
          END AS TIMESTAMPTZ), 'rewound_from': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.rewound
            THEN GREATEST(before.committed_offset, CASE WHEN part_1.rewind_open THEN before.rewound_from END)
            WHEN part_2.goes_on OR part_2.stays
            THEN before.rewound_from
          END AS BIGINT), 'rewound_to': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.rewound
            THEN LEAST(sample.consumer_offset, CASE WHEN part_1.rewind_open THEN before.rewound_to END)
            WHEN part_2.goes_on OR part_2.stays
            THEN before.rewound_to
          END AS BIGINT), 'regained_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.rewound
            THEN NULL
            WHEN part_2.goes_on
            AND part_1.rewind_open
            AND sample.consumer_offset >= before.rewound_from
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.regained_at
          END AS TIMESTAMPTZ), 'rewind_count': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.rewound
            THEN CASE
              WHEN EPOCH_US(sample.max_offset_read_at) - EPOCH_US(before.rewound_at) <= $window_us
              THEN before.rewind_count + 1
              ELSE 1
            END
            WHEN part_2.goes_on OR part_2.stays
            THEN before.rewind_count
          END AS INT), 'lost_at': TRY_CAST(CASE
            WHEN (
              part_2.goes_on OR part_2.starts
            ) AND part_1.loses
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.lost_at
          END AS TIMESTAMPTZ), 'disordered_at': TRY_CAST(CASE
            WHEN (
              part_2.goes_on OR part_2.starts
            ) AND part_1.disordered
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.disordered_at
          END AS TIMESTAMPTZ), 'within_end_at': TRY_CAST(CASE
            WHEN (
              part_2.goes_on OR part_2.starts
            ) AND part_1.within_end
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.within_end_at
          END AS TIMESTAMPTZ), 'beyond_after': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.set_beyond
            THEN before.seen_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.beyond_after
          END AS TIMESTAMPTZ), 'beyond_from': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.set_beyond
            THEN before.committed_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.beyond_from
          END AS BIGINT), 'recreated_at': TRY_CAST(CASE
            WHEN part_2.recreated
            THEN sample.max_offset_read_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.recreated_at
          END AS TIMESTAMPTZ), 'recreated_after': TRY_CAST(CASE
            WHEN part_2.recreated
            THEN before.seen_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.recreated_after
          END AS TIMESTAMPTZ), 'recreated_from': TRY_CAST(CASE
            WHEN part_2.recreated
            THEN before.seen_max_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.recreated_from
          END AS BIGINT), 'point_1_at': TRY_CAST(CASE
            WHEN part_2.goes_on
            THEN before.seen_at
            WHEN part_2.stays
            THEN before.point_1_at
          END AS TIMESTAMPTZ), 'point_1_max_offset': TRY_CAST(CASE
            WHEN part_2.goes_on
            THEN before.seen_max_offset
            WHEN part_2.stays
            THEN before.point_1_max_offset
          END AS BIGINT), 'point_1_committed_offset': TRY_CAST(CASE
            WHEN part_2.goes_on
            THEN before.committed_offset
            WHEN part_2.stays
            THEN before.point_1_committed_offset
          END AS BIGINT), 'point_2_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 2
            THEN before.point_1_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_2_at
          END AS TIMESTAMPTZ), 'point_2_max_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 2
            THEN before.point_1_max_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_2_max_offset
          END AS BIGINT), 'point_2_committed_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 2
            THEN before.point_1_committed_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_2_committed_offset
          END AS BIGINT), 'point_3_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 3
            THEN before.point_2_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_3_at
          END AS TIMESTAMPTZ), 'point_3_max_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 3
            THEN before.point_2_max_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_3_max_offset
          END AS BIGINT), 'point_3_committed_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 3
            THEN before.point_2_committed_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_3_committed_offset
          END AS BIGINT), 'point_4_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 4
            THEN before.point_3_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_4_at
          END AS TIMESTAMPTZ), 'point_4_max_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 4
            THEN before.point_3_max_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_4_max_offset
          END AS BIGINT), 'point_4_committed_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 4
            THEN before.point_3_committed_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_4_committed_offset
          END AS BIGINT), 'point_5_at': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 5
            THEN before.point_4_at
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_5_at
          END AS TIMESTAMPTZ), 'point_5_max_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 5
            THEN before.point_4_max_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_5_max_offset
          END AS BIGINT), 'point_5_committed_offset': TRY_CAST(CASE
            WHEN part_2.goes_on AND part_1.moving >= 5
            THEN before.point_4_committed_offset
            WHEN part_2.goes_on OR part_2.stays
            THEN before.point_5_committed_offset
          END AS BIGINT)}
        )[1]
      )[1],
      {'interval_start': TRY_CAST(NULL AS TIMESTAMPTZ), 'min_offset': TRY_CAST(NULL AS BIGINT), 'max_offset': TRY_CAST(NULL AS BIGINT), 'consumer_offset': TRY_CAST(NULL AS BIGINT), 'pull_offset': TRY_CAST(NULL AS BIGINT), 'last_timestamp': TRY_CAST(NULL AS TIMESTAMPTZ), 'oldest_unconsumed_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'consumer_offset_read_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'pull_offset_read_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'max_offset_read_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'origin': TRY_CAST(NULL AS TEXT), 'seen_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'seen_min_offset': TRY_CAST(NULL AS BIGINT), 'seen_max_offset': TRY_CAST(NULL AS BIGINT), 'committed_offset': TRY_CAST(NULL AS BIGINT), 'first_seen_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'unbroken_since': TRY_CAST(NULL AS TIMESTAMPTZ), 'sample_count': TRY_CAST(NULL AS INT), 'unknown_count': TRY_CAST(NULL AS INT), 'max_unchanged_since': TRY_CAST(NULL AS TIMESTAMPTZ), 'min_moved_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'min_moved_from': TRY_CAST(NULL AS BIGINT), 'earlier_min_moved_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'earlier_min_moved_from': TRY_CAST(NULL AS BIGINT), 'advanced_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'end_reached_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'longest_pause_ms': TRY_CAST(NULL AS BIGINT), 'longest_pause_ended_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'earlier_longest_pause_ms': TRY_CAST(NULL AS BIGINT), 'earlier_longest_pause_ended_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'rewound_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'rewound_from': TRY_CAST(NULL AS BIGINT), 'rewound_to': TRY_CAST(NULL AS BIGINT), 'regained_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'rewind_count': TRY_CAST(NULL AS INT), 'lost_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'disordered_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'within_end_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'beyond_after': TRY_CAST(NULL AS TIMESTAMPTZ), 'beyond_from': TRY_CAST(NULL AS BIGINT), 'recreated_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'recreated_after': TRY_CAST(NULL AS TIMESTAMPTZ), 'recreated_from': TRY_CAST(NULL AS BIGINT), 'point_1_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'point_1_max_offset': TRY_CAST(NULL AS BIGINT), 'point_1_committed_offset': TRY_CAST(NULL AS BIGINT), 'point_2_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'point_2_max_offset': TRY_CAST(NULL AS BIGINT), 'point_2_committed_offset': TRY_CAST(NULL AS BIGINT), 'point_3_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'point_3_max_offset': TRY_CAST(NULL AS BIGINT), 'point_3_committed_offset': TRY_CAST(NULL AS BIGINT), 'point_4_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'point_4_max_offset': TRY_CAST(NULL AS BIGINT), 'point_4_committed_offset': TRY_CAST(NULL AS BIGINT), 'point_5_at': TRY_CAST(NULL AS TIMESTAMPTZ), 'point_5_max_offset': TRY_CAST(NULL AS BIGINT), 'point_5_committed_offset': TRY_CAST(NULL AS BIGINT)}
    ) AS state
  FROM samples
)
SELECT
  cluster,
  state.interval_start,
  consumer_group,
  topic,
  broker_name,
  queue_id,
  state.min_offset,
  state.max_offset,
  state.consumer_offset,
  state.pull_offset,
  state.last_timestamp,
  state.oldest_unconsumed_at,
  state.consumer_offset_read_at,
  state.pull_offset_read_at,
  state.max_offset_read_at,
  state.origin,
  state.seen_at,
  state.seen_min_offset,
  state.seen_max_offset,
  state.committed_offset,
  state.first_seen_at,
  state.unbroken_since,
  state.sample_count,
  state.unknown_count,
  state.max_unchanged_since,
  state.min_moved_at,
  state.min_moved_from,
  state.earlier_min_moved_at,
  state.earlier_min_moved_from,
  state.advanced_at,
  state.end_reached_at,
  state.longest_pause_ms,
  state.longest_pause_ended_at,
  state.earlier_longest_pause_ms,
  state.earlier_longest_pause_ended_at,
  state.rewound_at,
  state.rewound_from,
  state.rewound_to,
  state.regained_at,
  state.rewind_count,
  state.lost_at,
  state.disordered_at,
  state.within_end_at,
  state.beyond_after,
  state.beyond_from,
  state.recreated_at,
  state.recreated_after,
  state.recreated_from,
  state.point_1_at,
  state.point_1_max_offset,
  state.point_1_committed_offset,
  state.point_2_at,
  state.point_2_max_offset,
  state.point_2_committed_offset,
  state.point_3_at,
  state.point_3_max_offset,
  state.point_3_committed_offset,
  state.point_4_at,
  state.point_4_max_offset,
  state.point_4_committed_offset,
  state.point_5_at,
  state.point_5_max_offset,
  state.point_5_committed_offset
FROM folded
