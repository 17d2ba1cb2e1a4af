-- How long ago each system was last validated at all, and last found good, hours.
SELECT
  workflow,
  identity,
  TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), MAX(requested_at), MINUTE) / 60 AS hours_since_any,
  TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), MAX(IF(verdict = 'pass', requested_at, NULL)), MINUTE) / 60 AS hours_since_pass
FROM `${dataset}.verdicts`
GROUP BY workflow, identity
