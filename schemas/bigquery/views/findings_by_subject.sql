-- Each kind of finding of each subject: number of runs with it, the first and the last one, and the last text.
SELECT
  workflow, code, severity, node, gpu, link, peer, rank,
  COUNT(DISTINCT run) AS runs,
  MIN(requested_at) AS first_at,
  MAX(requested_at) AS last_at,
  ARRAY_AGG(run ORDER BY requested_at DESC, run DESC, attempt DESC, log DESC, finding_number DESC LIMIT 1)[OFFSET(0)] AS last_run,
  ARRAY_AGG(serial ORDER BY requested_at DESC, run DESC, attempt DESC, log DESC, finding_number DESC LIMIT 1)[OFFSET(0)] AS last_serial,
  ARRAY_AGG(text ORDER BY requested_at DESC, run DESC, attempt DESC, log DESC, finding_number DESC LIMIT 1)[OFFSET(0)] AS last_text
FROM `${dataset}.findings`
GROUP BY workflow, code, severity, node, gpu, link, peer, rank
