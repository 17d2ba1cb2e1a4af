-- Each kind of finding of each subject: number of runs with it, the first and the last one, and the last text.
WITH ranked AS (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY workflow, code, severity, node, gpu, link, peer, rank
      ORDER BY requested_at DESC, run DESC, attempt DESC, log DESC, finding_number DESC
    ) AS place
  FROM findings
)
SELECT
  workflow, code, severity, node, gpu, link, peer, rank,
  count(DISTINCT run) AS runs,
  min(requested_at) AS first_at,
  max(requested_at) AS last_at,
  max(CASE WHEN place = 1 THEN run END) AS last_run,
  max(CASE WHEN place = 1 THEN serial END) AS last_serial,
  max(CASE WHEN place = 1 THEN text END) AS last_text
FROM ranked
GROUP BY workflow, code, severity, node, gpu, link, peer, rank
