-- How clients, or the broker for all of them, subscribe to a topic: whether to a part of it only, and by which
-- expressions clients themselves do. Subscriptions are `topic expression` texts; topics have no spaces, SQL expressions
-- do.
WITH told AS (
  SELECT
    cluster,
    consumer_group,
    EXPLODE(subscriptions) AS subscription,
    FALSE AS own
  FROM client_snapshots
  UNION ALL
  SELECT
    cluster,
    consumer_group,
    EXPLODE(own_subscriptions) AS subscription,
    TRUE AS own
  FROM client_snapshots
),

split AS (
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
  MAX(expression NOT IN ('*', '')) AS filtered,  -- these two match every message
  COALESCE(SORT_ARRAY(COLLECT_SET(CASE WHEN own THEN expression END)), ARRAY()) AS expressions
FROM split
GROUP BY cluster, consumer_group, topic
