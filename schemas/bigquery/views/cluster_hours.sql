-- What each workflow used of clusters, day by day: hours of nodes, how many of them the benchmark ran, and the money.
-- Of a run with several rows, because a cluster showed up after its end, the last one counts: it has the most hours.
WITH last AS (
  SELECT * FROM `${dataset}.runs`
  QUALIFY ROW_NUMBER() OVER (PARTITION BY run ORDER BY node_hours DESC) = 1
)
SELECT
  workflow,
  DATE(closed_at) AS day,
  COUNT(*) AS runs,
  SUM(node_hours) AS node_hours,
  SUM(node_hours - busy_node_hours) AS idle_node_hours,
  SUM(cost) AS cost,
  currency
FROM last
WHERE nodes > 0
GROUP BY workflow, day, currency
