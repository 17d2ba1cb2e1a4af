-- The latest verdict of each system: of each workflow, on each thing that is comparable.
SELECT workflow, identity, run, requested_at, verdict, reasons, criteria, baseline, fingerprint
FROM `${dataset}.verdicts`
QUALIFY ROW_NUMBER() OVER (PARTITION BY workflow, identity ORDER BY requested_at DESC, run DESC) = 1
