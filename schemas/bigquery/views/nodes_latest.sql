-- The last result of each node of the existing clusters, and the node's state after it, as `burnin nodes` derives it: `good`, `suspected`,
-- `drained`, `returned` or `failed_again`. A re-test that was passed without a return to service only clears a suspicion, and a failed
-- re-test changes only the state of a node that was drained or returned. `was_out`: Burnin drained or returned the node earlier.
WITH results AS (
  SELECT
    *,
    MAX(CASE WHEN result IN ('drained', 'returned') THEN 1 ELSE 0 END)
      OVER (PARTITION BY cluster, node ORDER BY requested_at, run, result ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS was_out
  FROM `${dataset}.node_results`
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
