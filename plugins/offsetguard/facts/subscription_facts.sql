-- Subscriptions that changed, and members of a group that subscribe differently.
--
-- 1. A group's lines about a topic, of the look-back window. Each replica of each broker writes them, so the counts are
--    those of the replica that wrote most. Clients raise `subVersion` at every rebalance, so a line whose expression is
--    the same is noise; the version is never compared. Two expressions with the same tags are the same: tags are
--    sorted, each once; the empty expression means every message; a type other than TAG is shown before it.
-- 2. Members, of this interval only: the newest running info of each client that was asked. Only what a client itself
--    says shows a mismatch all the time; the brokers keep one subscription for the whole group, the newest one.
-- 3. `%RETRY%` topics are left out: every client subscribes to its own group's.
-- A (group, topic) has a fact when there is a line, or when the members differ.
WITH read_lines AS (
  SELECT
    line.*,
    CASE
      WHEN kind = 'subscription_changed'
        THEN
          TRANSFORM(
            ARRAY(
              STRUCT(
                GET_JSON_OBJECT(fields_json, '$.old_sub_string') AS sub_string,
                GET_JSON_OBJECT(fields_json, '$.old_expression_type') AS expression_type
              ),
              STRUCT(
                GET_JSON_OBJECT(fields_json, '$.new_sub_string') AS sub_string,
                GET_JSON_OBJECT(fields_json, '$.new_expression_type') AS expression_type
              )
            ),
            side -> CASE
              WHEN side.sub_string IS NOT NULL
                THEN
                  CONCAT(
                    CASE WHEN side.expression_type <> 'TAG' THEN CONCAT(side.expression_type, ': ') ELSE '' END,
                    COALESCE(NULLIF(ARRAY_JOIN(ARRAY_SORT(ARRAY_DISTINCT(ARRAY_COMPACT(TRANSFORM(
                      SPLIT(side.sub_string, '[|][|]'), tag -> NULLIF(TRIM(BOTH ' ' FROM tag), '')
                    )))), ' || '), ''), '*')
                  )
            END
          )
    END AS expressions  -- before and after
  FROM log_events_history AS line
  INNER JOIN intervals
    ON
      intervals.cluster = line.cluster
      AND intervals.interval_start >= line.interval_start
      AND UNIX_MICROS(intervals.now) - UNIX_MICROS(line.at) <= :log_window_us
  WHERE
    line.interval_start BETWEEN :oldest_log_interval AND :interval_start
    AND kind IN ('subscription_added', 'subscription_refreshed', 'subscription_changed', 'subscription_removed')
    AND consumer_group IS NOT NULL
    AND NOT STARTSWITH(topic, '%RETRY%')
),

compared_lines AS (
  SELECT
    *,
    COALESCE(TRY_ELEMENT_AT(expressions, 1) = TRY_ELEMENT_AT(expressions, 2), FALSE) AS is_same
  FROM read_lines
),

lines AS (
  SELECT DISTINCT
    cluster,
    consumer_group,
    topic,
    broker_name,
    broker_id,
    position,
    at,
    CASE WHEN is_same THEN 'subscription_refreshed' ELSE kind END AS kind,
    CASE WHEN NOT is_same THEN TRY_ELEMENT_AT(expressions, 1) END AS changed_from,
    CASE WHEN NOT is_same THEN TRY_ELEMENT_AT(expressions, 2) END AS changed_to
  FROM compared_lines
),

told_by_replicas AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    COUNT(CASE WHEN kind = 'subscription_refreshed' THEN 1 END) AS refreshed_count,
    COUNT(CASE WHEN kind = 'subscription_changed' THEN 1 END) AS changed_count,
    COUNT(CASE WHEN kind = 'subscription_added' THEN 1 END) AS added_count,
    COUNT(CASE WHEN kind = 'subscription_removed' THEN 1 END) AS removed_count,
    MIN(CASE WHEN kind = 'subscription_changed' THEN at END) AS first_changed_at,
    MAX(CASE
      WHEN kind = 'subscription_changed'
        THEN
          STRUCT(
            at,
            position,
            COALESCE(changed_from, '') AS from_key,
            COALESCE(changed_to, '') AS to_key,
            changed_from,
            changed_to
          )
    END) AS newest,
    FLATTEN(COALESCE(COLLECT_LIST(ARRAY(changed_from, changed_to)), ARRAY())) AS expressions
  FROM lines
  GROUP BY cluster, consumer_group, topic, broker_name, broker_id
),

told AS (
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
    ARRAY_SORT(ARRAY_DISTINCT(ARRAY_COMPACT(FLATTEN(COALESCE(COLLECT_LIST(expressions), ARRAY())))))
      AS changed_expressions
  FROM told_by_replicas
  GROUP BY cluster, consumer_group, topic
),

-- Several replicas may have a row of one client
running_infos AS (
  SELECT
    *,
    ROW_NUMBER() OVER (
      PARTITION BY cluster, consumer_group, client_id
      ORDER BY running_info_read_at DESC, broker_name DESC, broker_id DESC
    ) AS age
  FROM client_snapshots
  WHERE own_subscriptions IS NOT NULL AND running_info_read_at IS NOT NULL
),

-- `topic expression` of members (client_id) and of brokers (client_id NULL)
subscribed AS (
  SELECT
    cluster,
    consumer_group,
    client_id,
    EXPLODE(own_subscriptions) AS subscription
  FROM running_infos
  WHERE age = 1
  UNION ALL
  SELECT
    cluster,
    consumer_group,
    NULL AS client_id,
    EXPLODE(subscriptions) AS subscription
  FROM client_snapshots
),

subscriptions AS (
  SELECT
    cluster,
    consumer_group,
    client_id,
    SPLIT_PART(subscription, ' ', 1) AS topic,
    COALESCE(NULLIF(ARRAY_JOIN(ARRAY_SORT(ARRAY_DISTINCT(ARRAY_COMPACT(TRANSFORM(
      SPLIT(SUBSTRING(subscription, LENGTH(SPLIT_PART(subscription, ' ', 1)) + 2), '[|][|]'),
      tag -> NULLIF(TRIM(BOTH ' ' FROM tag), '')
    )))), ' || '), ''), '*') AS expression
  FROM subscribed
  WHERE NOT STARTSWITH(subscription, '%RETRY%')
),

-- A client has one subscription per topic: of two the greater text counts
own AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    client_id,
    MAX(expression) AS expression
  FROM subscriptions
  WHERE client_id IS NOT NULL
  GROUP BY cluster, consumer_group, topic, client_id
),

held AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    COALESCE(SORT_ARRAY(COLLECT_SET(expression)), ARRAY()) AS expressions
  FROM subscriptions
  WHERE client_id IS NULL
  GROUP BY cluster, consumer_group, topic
),

topics AS (
  SELECT DISTINCT
    cluster,
    consumer_group,
    topic
  FROM own
),

members_of_topics AS (
  SELECT
    topics.cluster,
    topics.consumer_group,
    topics.topic,
    members.client_id,
    members.consumer_start_at,
    own.expression,  -- NULL: the member does not subscribe to the topic
    held.expressions AS broker_expressions,
    SIZE(FILTER(held.expressions, one -> one = own.expression)) = 0 AS is_losing
  FROM topics
  INNER JOIN running_infos AS members
    ON
      members.cluster = topics.cluster
      AND members.consumer_group = topics.consumer_group
      AND members.age = 1
  LEFT JOIN own
    ON
      own.cluster = topics.cluster
      AND own.consumer_group = topics.consumer_group
      AND own.topic = topics.topic
      AND own.client_id = members.client_id
  LEFT JOIN held
    ON
      held.cluster = topics.cluster
      AND held.consumer_group = topics.consumer_group
      AND held.topic = topics.topic
),

seen AS (
  SELECT
    cluster,
    consumer_group,
    topic,
    CAST(COUNT(*) AS INT) AS member_count,
    COALESCE(SORT_ARRAY(COLLECT_SET(expression)), ARRAY()) AS member_expressions,
    MAX(broker_expressions) AS broker_expressions,
    COALESCE(SORT_ARRAY(COLLECT_SET(CASE WHEN expression IS NOT NULL AND is_losing THEN client_id END)), ARRAY())
      AS losing_client_ids,
    COALESCE(SORT_ARRAY(COLLECT_SET(CASE WHEN expression IS NULL THEN client_id END)), ARRAY())
      AS unsubscribed_client_ids,
    MAX(consumer_start_at) AS newest_member_start_at
  FROM members_of_topics
  GROUP BY cluster, consumer_group, topic
),

with_mismatch AS (
  SELECT
    *,
    SIZE(member_expressions) > 1 OR SIZE(unsubscribed_client_ids) > 0 AS mismatch
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
  told.newest.at AS last_changed_at,
  told.newest.changed_from AS changed_from,
  told.newest.changed_to AS changed_to,
  COALESCE(told.changed_expressions, ARRAY()) AS changed_expressions,
  COALESCE(seen.member_count, 0) AS member_count,
  COALESCE(seen.member_expressions, ARRAY()) AS member_expressions,
  COALESCE(seen.broker_expressions, ARRAY()) AS broker_expressions,
  CASE WHEN seen.broker_expressions IS NOT NULL THEN CAST(SIZE(seen.losing_client_ids) AS INT) END
    AS losing_member_count,
  SLICE(COALESCE(seen.losing_client_ids, ARRAY()), 1, :most_clients) AS losing_client_ids,
  CAST(COALESCE(SIZE(seen.unsubscribed_client_ids), 0) AS INT) AS unsubscribed_member_count,
  SLICE(COALESCE(seen.unsubscribed_client_ids, ARRAY()), 1, :most_clients) AS unsubscribed_client_ids,
  seen.newest_member_start_at,
  COALESCE(seen.mismatch, FALSE) AS mismatch
FROM told
FULL OUTER JOIN with_mismatch AS seen USING (cluster, consumer_group, topic)
INNER JOIN intervals USING (cluster)
WHERE told.refreshed_count IS NOT NULL OR seen.mismatch
