-- Bus bandwidth of each size and placement, run by run, GB/s, with the median of the ten runs before.
WITH runs AS (
  SELECT workflow, identity, collective, size_bytes, placement, run, requested_at, verdict, AVG(busbw) AS busbw
  FROM `${dataset}.measurements`
  GROUP BY workflow, identity, collective, size_bytes, placement, run, requested_at, verdict
),
windows AS (
  SELECT *, ARRAY_AGG(busbw) OVER (
    PARTITION BY workflow, identity, collective, size_bytes, placement
    ORDER BY requested_at, run ROWS BETWEEN 10 PRECEDING AND 1 PRECEDING
  ) AS before
  FROM runs
)
SELECT * EXCEPT (before), (SELECT PERCENTILE_CONT(b, 0.5) OVER () FROM UNNEST(before) AS b LIMIT 1) AS median_before
FROM windows
