-- The schema of a warehouse file before the table `metrics` existed, with one measured run.
CREATE TABLE loads (load TEXT PRIMARY KEY, rows INTEGER NOT NULL) STRICT;
CREATE TABLE verdicts (run TEXT NOT NULL, workflow TEXT NOT NULL, attempt INTEGER NOT NULL, check_name TEXT, requested_at TEXT,
  verdict TEXT, reasons TEXT NOT NULL, criteria TEXT, baseline TEXT, identity TEXT, fingerprint TEXT NOT NULL,
  measurements INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX verdicts_key ON verdicts (run, attempt, ifnull(check_name, ''));
CREATE TABLE measurements (run TEXT NOT NULL, workflow TEXT NOT NULL, attempt INTEGER NOT NULL, check_name TEXT,
  log TEXT NOT NULL, table_number INTEGER NOT NULL, row_number INTEGER NOT NULL, placement TEXT NOT NULL, collective TEXT,
  ranks INTEGER, size_bytes INTEGER NOT NULL, count INTEGER NOT NULL, dtype TEXT NOT NULL, redop TEXT, time_us REAL NOT NULL,
  algbw REAL NOT NULL, busbw REAL NOT NULL, wrong INTEGER, requested_at TEXT, verdict TEXT, criteria TEXT, baseline TEXT,
  identity TEXT, fingerprint TEXT) STRICT;
CREATE UNIQUE INDEX measurements_key ON measurements
  (run, attempt, ifnull(check_name, ''), log, table_number, row_number, placement);
CREATE TABLE runs (run TEXT NOT NULL, workflow TEXT NOT NULL, requested_at TEXT, closed_at TEXT, conclusion TEXT NOT NULL,
  failure TEXT, verdict TEXT, nodes INTEGER NOT NULL, node_hours REAL NOT NULL, busy_node_hours REAL NOT NULL, cost REAL,
  currency TEXT) STRICT;
CREATE UNIQUE INDEX runs_key ON runs (run, node_hours);
CREATE INDEX history ON verdicts (workflow, identity, requested_at, run);
INSERT INTO loads VALUES ('a.1', 1);
INSERT INTO verdicts VALUES ('a', 'w', 1, NULL, '1970-01-01T00:00:01.000Z', 'pass', 'SANE', NULL, NULL, 'same', '{}', 1);
INSERT INTO measurements VALUES ('a', 'w', 1, NULL, '1/node-0.log', 0, 0, 'in_place', NULL, NULL, 8, 2, 'float', NULL, 1.5, 0.0,
  0.0, 0, NULL, NULL, NULL, NULL, NULL, NULL);
