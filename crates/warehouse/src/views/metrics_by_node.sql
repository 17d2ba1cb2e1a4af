-- Each metric of each node, run by run: number of values, of values that could not be measured, median, minimum and maximum.
WITH ranked AS (
  SELECT
    *,
    ROW_NUMBER() OVER (PARTITION BY run, workflow, check_name, metric, labels, unit, better, scope, node, value IS NULL ORDER BY value) AS place,
    COUNT(value) OVER (PARTITION BY run, workflow, check_name, metric, labels, unit, better, scope, node) AS measured
  FROM metrics
  WHERE node IS NOT NULL
)
SELECT
  workflow, check_name, metric, labels, unit, better, scope, node, run, requested_at, verdict,
  measured,
  SUM(value IS NULL) AS unmeasurable,
  AVG(CASE WHEN value IS NOT NULL AND place IN ((measured + 1) / 2, (measured + 2) / 2) THEN value END) AS median,
  MIN(value) AS min,
  MAX(value) AS max
FROM ranked
GROUP BY workflow, check_name, metric, labels, unit, better, scope, node, run, requested_at, verdict, measured
