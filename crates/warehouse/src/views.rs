//! Views of a SQLite file, by name. Those of BigQuery are in `schemas/bigquery/views`.

/// Name and query of each view. The columns are those of the view of the same name in BigQuery.
pub const VIEWS: [(&str, &str); 6] = [
    ("metrics_latest", include_str!("views/metrics_latest.sql")),
    ("metrics_trend", include_str!("views/metrics_trend.sql")),
    ("metrics_by_node", include_str!("views/metrics_by_node.sql")),
    ("nodes_latest", include_str!("views/nodes_latest.sql")),
    ("nodes_history", include_str!("views/nodes_history.sql")),
    ("findings_by_subject", include_str!("views/findings_by_subject.sql")),
];
