-- The last result of each node of the existing clusters.
SELECT cluster, node, result, detail, run, workflow, requested_at
FROM `${dataset}.node_results`
WHERE cluster IS NOT NULL
QUALIFY ROW_NUMBER() OVER (PARTITION BY cluster, node ORDER BY requested_at DESC, run DESC, result) = 1
