-- The last result of each node of the existing clusters.
SELECT cluster, node, result, detail, run, workflow, requested_at
FROM (
  SELECT
    *,
    row_number() OVER (PARTITION BY cluster, node ORDER BY requested_at DESC, run DESC, result) AS place
  FROM node_results
  WHERE cluster IS NOT NULL
)
WHERE place = 1
