-- Each metric, run by run: number of values, of values that could not be measured, median, minimum and maximum.
WITH grouped AS (
  SELECT
    workflow, check_name, metric, labels, unit, better, scope, run, requested_at, verdict,
    COUNT(value) AS measured,
    COUNTIF(value IS NULL) AS unmeasurable,
    MIN(value) AS min,
    MAX(value) AS max,
    ARRAY_AGG(value IGNORE NULLS) AS measured_values
  FROM `${dataset}.metrics`
  GROUP BY workflow, check_name, metric, labels, unit, better, scope, run, requested_at, verdict
)
SELECT
  workflow, check_name, metric, labels, unit, better, scope, run, requested_at, verdict,
  measured,
  unmeasurable,
  (SELECT PERCENTILE_CONT(v, 0.5) OVER () FROM UNNEST(measured_values) AS v LIMIT 1) AS median,
  min,
  max
FROM grouped
