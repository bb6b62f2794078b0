-- Made of ../subscription_facts.sql by `make facts-sql`: change that file.
WITH read_lines AS (
  SELECT
    line.*,
    CASE
      WHEN kind = 'subscription_changed'
      THEN LIST_TRANSFORM(
        [
          {'sub_string': TRY(fields_json ->> '$.old_sub_string'), 'expression_type': TRY(fields_json ->> '$.old_expression_type')},
          {'sub_string': TRY(fields_json ->> '$.new_sub_string'), 'expression_type': TRY(fields_json ->> '$.new_expression_type')}
        ],
        LAMBDA side : CASE
          WHEN NOT side.sub_string IS NULL
          THEN CASE
            WHEN side.expression_type <> 'TAG'
            THEN side.expression_type || ': '
            ELSE ''
          END || COALESCE(
            NULLIF(
              ARRAY_TO_STRING(
                LIST_SORT(
                  LIST_DISTINCT(
                    LIST_FILTER(
                      LIST_TRANSFORM(
                        STR_SPLIT_REGEX(side.sub_string, '[|][|]'),
                        LAMBDA tag : NULLIF(TRIM(tag, ' '), '')
                      ),
                      LAMBDA _u : NOT _u IS NULL
                    )
                  )
                ),
                ' || '
              ),
              ''
            ),
            '*'
          )
        END
      )
    END AS expressions
  FROM log_events_history AS line
  INNER JOIN intervals
    ON intervals.cluster = line.cluster
    AND intervals.interval_start >= line.interval_start
    AND EPOCH_US(intervals.now) - EPOCH_US(line."at") <= $log_window_us
  WHERE
    line.interval_start BETWEEN $oldest_log_interval AND $interval_start
    AND kind IN (
      'subscription_added',
      'subscription_refreshed',
      'subscription_changed',
      'subscription_removed'
    )
    AND NOT consumer_group IS NULL
    AND NOT STARTS_WITH(topic, '%RETRY%')
), compared_lines AS (
  SELECT
    *,
    COALESCE(expressions[1] = expressions[2], FALSE) AS is_same
  FROM read_lines
), lines AS (
  SELECT DISTINCT
    cluster,
    consumer_group,
    topic,
    broker_name,
    broker_id,
    position,
    "at",
    CASE WHEN is_same THEN 'subscription_refreshed' ELSE kind END AS kind,
    CASE WHEN NOT is_same THEN expressions[1] END AS changed_from,
    CASE WHEN NOT is_same THEN expressions[2] END AS changed_to
  FROM compared_lines
), told_by_replicas AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    COUNT(CASE WHEN kind = 'subscription_refreshed' THEN 1 END) AS refreshed_count,
    COUNT(CASE WHEN kind = 'subscription_changed' THEN 1 END) AS changed_count,
    COUNT(CASE WHEN kind = 'subscription_added' THEN 1 END) AS added_count,
    COUNT(CASE WHEN kind = 'subscription_removed' THEN 1 END) AS removed_count,
    MIN(CASE WHEN kind = 'subscription_changed' THEN "at" END) AS first_changed_at,
    MAX(
      CASE
        WHEN kind = 'subscription_changed'
        THEN {'at': "at", 'position': position, 'from_key': COALESCE(changed_from, ''), 'to_key': COALESCE(changed_to, ''), 'changed_from': changed_from, 'changed_to': changed_to}
      END
    ) AS newest,
    FLATTEN(
      COALESCE(
        ARRAY_AGG([changed_from, changed_to]) FILTER(WHERE [changed_from, changed_to] IS NOT NULL),
        []
      )
    ) AS expressions
  FROM lines
  GROUP BY
    cluster,
    consumer_group,
    topic,
    broker_name,
    broker_id
), told AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    MAX(refreshed_count) AS refreshed_count,
    MAX(changed_count) AS changed_count,
    MAX(added_count) AS added_count,
    MAX(removed_count) AS removed_count,
    MIN(first_changed_at) AS first_changed_at,
    MAX(newest) AS newest,
    LIST_SORT(
      LIST_DISTINCT(
        LIST_FILTER(
          FLATTEN(COALESCE(ARRAY_AGG(expressions) FILTER(WHERE expressions IS NOT NULL), [])),
          LAMBDA _u : NOT _u IS NULL
        )
      )
    ) AS changed_expressions
  FROM told_by_replicas
  GROUP BY
    cluster,
    consumer_group,
    topic
), running_infos AS (
  SELECT
    *,
    ROW_NUMBER() OVER (
      PARTITION BY cluster, consumer_group, client_id
      ORDER BY running_info_read_at DESC, broker_name DESC, broker_id DESC
    ) AS age
  FROM client_snapshots
  WHERE
    NOT own_subscriptions IS NULL AND NOT running_info_read_at IS NULL
), subscribed AS (
  SELECT
    cluster,
    consumer_group,
    client_id,
    UNNEST(own_subscriptions) AS subscription
  FROM running_infos
  WHERE
    age = 1
  UNION ALL
  SELECT
    cluster,
    consumer_group,
    NULL AS client_id,
    UNNEST(subscriptions) AS subscription
  FROM client_snapshots
), subscriptions AS (
  SELECT
    cluster,
    consumer_group,
    client_id,
    SPLIT_PART(subscription, ' ', 1) AS topic,
    COALESCE(
      NULLIF(
        ARRAY_TO_STRING(
          LIST_SORT(
            LIST_DISTINCT(
              LIST_FILTER(
                LIST_TRANSFORM(
                  STR_SPLIT_REGEX(SUBSTRING(subscription, LENGTH(SPLIT_PART(subscription, ' ', 1)) + 2), '[|][|]'),
                  LAMBDA tag : NULLIF(TRIM(tag, ' '), '')
                ),
                LAMBDA _u : NOT _u IS NULL
              )
            )
          ),
          ' || '
        ),
        ''
      ),
      '*'
    ) AS expression
  FROM subscribed
  WHERE
    NOT STARTS_WITH(subscription, '%RETRY%')
), own AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    client_id,
    MAX(expression) AS expression
  FROM subscriptions
  WHERE
    NOT client_id IS NULL
  GROUP BY
    cluster,
    consumer_group,
    topic,
    client_id
), held AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    COALESCE(
      LIST_SORT(
        LIST(DISTINCT expression) FILTER(WHERE
          NOT expression IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    ) AS expressions
  FROM subscriptions
  WHERE
    client_id IS NULL
  GROUP BY
    cluster,
    consumer_group,
    topic
), topics AS (
  SELECT DISTINCT
    cluster,
    consumer_group,
    topic
  FROM own
), members_of_topics AS (
  SELECT
    topics.cluster,
    topics.consumer_group,
    topics.topic,
    members.client_id,
    members.consumer_start_at,
    own.expression,
    held.expressions AS broker_expressions,
    ARRAY_LENGTH(LIST_FILTER(held.expressions, LAMBDA one : one = own.expression)) = 0 AS is_losing
  FROM topics
  INNER JOIN running_infos AS members
    ON members.cluster = topics.cluster
    AND members.consumer_group = topics.consumer_group
    AND members.age = 1
  LEFT JOIN own
    ON own.cluster = topics.cluster
    AND own.consumer_group = topics.consumer_group
    AND own.topic = topics.topic
    AND own.client_id = members.client_id
  LEFT JOIN held
    ON held.cluster = topics.cluster
    AND held.consumer_group = topics.consumer_group
    AND held.topic = topics.topic
), seen AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    TRY_CAST(COUNT(*) AS INT) AS member_count,
    COALESCE(
      LIST_SORT(
        LIST(DISTINCT expression) FILTER(WHERE
          NOT expression IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    ) AS member_expressions,
    MAX(broker_expressions) AS broker_expressions,
    COALESCE(
      LIST_SORT(
        LIST(DISTINCT CASE WHEN NOT expression IS NULL AND is_losing THEN client_id END) FILTER(WHERE
          NOT CASE WHEN NOT expression IS NULL AND is_losing THEN client_id END IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    ) AS losing_client_ids,
    COALESCE(
      LIST_SORT(
        LIST(DISTINCT CASE WHEN expression IS NULL THEN client_id END) FILTER(WHERE
          NOT CASE WHEN expression IS NULL THEN client_id END IS NULL),
        'ASC',
        'NULLS FIRST'
      ),
      []
    ) AS unsubscribed_client_ids,
    MAX(consumer_start_at) AS newest_member_start_at
  FROM members_of_topics
  GROUP BY
    cluster,
    consumer_group,
    topic
), with_mismatch AS (
  SELECT
    *,
    ARRAY_LENGTH(member_expressions) > 1 OR ARRAY_LENGTH(unsubscribed_client_ids) > 0 AS mismatch
  FROM seen
)
SELECT
  cluster,
  intervals.interval_start,
  consumer_group,
  topic,
  COALESCE(told.refreshed_count, 0) AS refreshed_count,
  COALESCE(told.changed_count, 0) AS changed_count,
  COALESCE(told.added_count, 0) AS added_count,
  COALESCE(told.removed_count, 0) AS removed_count,
  told.first_changed_at,
  told.newest."at" AS last_changed_at,
  told.newest.changed_from AS changed_from,
  told.newest.changed_to AS changed_to,
  COALESCE(told.changed_expressions, []) AS changed_expressions,
  COALESCE(seen.member_count, 0) AS member_count,
  COALESCE(seen.member_expressions, []) AS member_expressions,
  COALESCE(seen.broker_expressions, []) AS broker_expressions,
  CASE
    WHEN NOT seen.broker_expressions IS NULL
    THEN TRY_CAST(ARRAY_LENGTH(seen.losing_client_ids) AS INT)
  END AS losing_member_count,
  ARRAY_SLICE(COALESCE(seen.losing_client_ids, []), 1, (
    1 + CAST($most_clients AS BIGINT)
  ) - 1) AS losing_client_ids,
  TRY_CAST(COALESCE(ARRAY_LENGTH(seen.unsubscribed_client_ids), 0) AS INT) AS unsubscribed_member_count,
  ARRAY_SLICE(
    COALESCE(seen.unsubscribed_client_ids, []),
    1,
    (
      1 + CAST($most_clients AS BIGINT)
    ) - 1
  ) AS unsubscribed_client_ids,
  seen.newest_member_start_at,
  COALESCE(seen.mismatch, FALSE) AS mismatch
FROM told
FULL OUTER JOIN with_mismatch AS seen
  USING (cluster, consumer_group, topic)
INNER JOIN intervals
  USING (cluster)
WHERE
  NOT told.refreshed_count IS NULL OR seen.mismatch
