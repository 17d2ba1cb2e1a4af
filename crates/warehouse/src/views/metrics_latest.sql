-- The latest value of each metric and subject: of each workflow and check, the last one of its latest run with this subject.
-- Without a node, rank or world, the name of the log distinguishes subjects; without a GPU or link, the device does.
SELECT workflow, check_name, metric, labels, unit, better, scope, node, gpu, link, peer, rank, serial, bus_id, value, resolution,
  unmeasurable, run, requested_at, verdict, log, line
FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY workflow, check_name, metric, labels, unit, scope, node, gpu, link, peer, rank,
      CASE WHEN node IS NULL AND rank IS NULL AND scope <> 'world' THEN replace(log, rtrim(log, replace(log, '/', '')), '') END,
      CASE WHEN gpu IS NULL AND link IS NULL AND rank IS NULL THEN coalesce(serial, bus_id) END
    ORDER BY requested_at DESC, run DESC, attempt DESC, line DESC, metric_number DESC
  ) AS age
  FROM metrics
)
WHERE age = 1
