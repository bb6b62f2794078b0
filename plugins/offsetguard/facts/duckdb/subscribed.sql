-- Made of ../subscribed.sql by `make facts-sql`: change that file.
WITH told AS (
  SELECT
    cluster,
    consumer_group,
    UNNEST(subscriptions) AS subscription,
    FALSE AS own
  FROM client_snapshots
  UNION ALL
  SELECT
    cluster,
    consumer_group,
    UNNEST(own_subscriptions) AS subscription,
    TRUE AS own
  FROM client_snapshots
), split AS (
  SELECT
    cluster,
    consumer_group,
    own,
    SPLIT_PART(subscription, ' ', 1) AS topic,
    SUBSTRING(subscription, LENGTH(SPLIT_PART(subscription, ' ', 1)) + 2) AS expression
  FROM told
)
SELECT
  cluster,
  consumer_group,
  topic,
  MAX(NOT expression IN ('*', '')) AS filtered,
  COALESCE(
    LIST_SORT(
      LIST(DISTINCT CASE WHEN own THEN expression END) FILTER(WHERE
        NOT CASE WHEN own THEN expression END IS NULL),
      'ASC',
      'NULLS FIRST'
    ),
    []
  ) AS expressions
FROM split
GROUP BY
  cluster,
  consumer_group,
  topic
