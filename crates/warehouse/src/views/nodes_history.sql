-- The changes of the state of each node of the existing clusters: the state, and since when. The states are those of `nodes_latest`, and
-- `in_retest` from the request for a re-test until it was closed. A re-test without an effect returns its node to the state before it.
-- `changed`: number of the node's states until this result. `states` repeats that of `nodes_latest`, because Terraform creates all views at
-- the same time: BigQuery refuses a view that reads an absent one.
WITH results AS (
  SELECT
    results.*,
    COALESCE(runs.closed_at, results.requested_at) AS ended_at,
    MAX(CASE WHEN result IN ('drained', 'returned') THEN 1 ELSE 0 END) OVER (
      PARTITION BY cluster, node
      ORDER BY results.requested_at, results.run, result
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS was_out
  FROM node_results AS results
  LEFT JOIN (SELECT run, MAX(closed_at) AS closed_at FROM runs GROUP BY run) AS runs ON runs.run = results.run
  WHERE cluster IS NOT NULL
),
states AS (
  SELECT
    *,
    CASE
      WHEN result = 'drained' THEN 'drained'
      WHEN result = 'returned' OR result = 'passed' AND was_out = 1 THEN 'returned'
      WHEN result = 'passed' OR result = 'retest_passed' AND was_out = 0 THEN 'good'
      WHEN result IN ('suspected', 'retest_failed') AND was_out = 1 THEN 'failed_again'
      WHEN result = 'suspected' THEN 'suspected'
    END AS state
  FROM results
),
numbered AS (
  SELECT
    *,
    SUM(CASE WHEN state IS NULL THEN 0 ELSE 1 END) OVER (
      PARTITION BY cluster, node
      ORDER BY requested_at, run, result
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS changed
  FROM states
),
events AS (
  SELECT
    cluster,
    node,
    MAX(state) OVER (PARTITION BY cluster, node, changed) AS state,
    ended_at AS since,
    1 AS step,
    run,
    workflow,
    result,
    detail
  FROM numbered
  UNION ALL
  SELECT cluster, node, 'in_retest', requested_at, 0, run, workflow, result, detail
  FROM numbered
  WHERE result IN ('retest_passed', 'returned', 'retest_failed')
),
ordered AS (
  SELECT
    *,
    LAG(state) OVER (PARTITION BY cluster, node ORDER BY since, run, step, result) AS state_before
  FROM events
  WHERE state IS NOT NULL
)
SELECT
  cluster,
  node,
  state,
  since,
  run,
  workflow,
  result,
  detail
FROM ordered
WHERE state_before IS NULL OR state_before <> state
