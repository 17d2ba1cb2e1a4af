-- The last result of each node of the existing clusters, and the node's state after it, as `burnin nodes` derives it: `good`, `suspected`,
-- `drained`, `returned` or `failed_again`. A re-test that was passed without a return to service does not change the state, and a failed
-- re-test only that of a node that was drained.
WITH results AS (
  SELECT
    *,
    MAX(CASE WHEN result = 'drained' THEN 1 ELSE 0 END)
      OVER (PARTITION BY cluster, node ORDER BY requested_at, run, result ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS was_drained
  FROM node_results
  WHERE cluster IS NOT NULL
),
states AS (
  SELECT
    *,
    CASE
      WHEN result = 'drained' THEN 'drained'
      WHEN result IN ('passed', 'returned') AND was_drained = 1 THEN 'returned'
      WHEN result IN ('passed', 'returned') THEN 'good'
      WHEN result IN ('suspected', 'retest_failed') AND was_drained = 1 THEN 'failed_again'
      WHEN result = 'suspected' THEN 'suspected'
    END AS state
  FROM results
),
ordered AS (
  SELECT
    *,
    ROW_NUMBER() OVER (PARTITION BY cluster, node ORDER BY requested_at DESC, run DESC, result) AS place,
    ROW_NUMBER() OVER (
      PARTITION BY cluster, node
      ORDER BY CASE WHEN state IS NULL THEN 1 ELSE 0 END, requested_at DESC, run DESC, result
    ) AS state_place
  FROM states
)
SELECT
  latest.cluster,
  latest.node,
  known.state,
  latest.result,
  latest.detail,
  latest.run,
  latest.workflow,
  latest.requested_at
FROM ordered AS latest
INNER JOIN ordered AS known ON known.cluster = latest.cluster AND known.node = latest.node AND known.state_place = 1
WHERE latest.place = 1
