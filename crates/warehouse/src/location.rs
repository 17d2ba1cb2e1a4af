//! Address of the warehouse, as configured in a service's environment.

use std::{path::PathBuf, str::FromStr};

/// Address of the warehouse: a SQLite file or a BigQuery dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarehouseLocation {
    /// A local SQLite file.
    File(PathBuf),
    /// A dataset of BigQuery.
    BigQuery {
        /// Project that owns the dataset and is billed for queries.
        project: String,
        /// Name of the dataset with the tables.
        dataset: String,
    },
}

impl FromStr for WarehouseLocation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            return Ok(Self::File(text.into()));
        }
        let place = text
            .strip_prefix("bigquery:")
            .ok_or("expected the absolute path of a SQLite file, or bigquery:PROJECT.DATASET")?;
        // A domain-scoped project id contains a dot.
        let (project, dataset) =
            place.rsplit_once('.').ok_or("in bigquery:PROJECT.DATASET, DATASET is missing")?;
        let of_project =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:".contains(&byte);
        let of_dataset = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !project.starts_with(|first: char| first.is_ascii_lowercase()) || !project.bytes().all(of_project)
        {
            return Err(
                "in bigquery:PROJECT.DATASET, PROJECT is a project's id, not its number or its title",
            );
        }
        if dataset.is_empty() || dataset.len() > 200 || !dataset.bytes().all(of_dataset) {
            return Err("in bigquery:PROJECT.DATASET, DATASET has letters, digits and `_`, at most 200");
        }
        Ok(Self::BigQuery { project: project.to_owned(), dataset: dataset.to_owned() })
    }
}
