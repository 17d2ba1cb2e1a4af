//! Requests to BigQuery's API and the interpretation of responses.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable};
use google_cloud_auth::credentials::anonymous;
use google_cloud_bigquery_v2::{
    client::{JobService, TableService},
    model::{
        DataFormatOptions, Job, JobConfiguration, JobConfigurationLoad, JobReference, QueryParameter,
        QueryRequest, TableReference,
    },
};
use google_cloud_gax::{error::Error as Failed, options::RequestOptionsBuilder, retry_policy::NeverRetry};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::{BigQueryOptions, chain};
use crate::{Error, TABLES};

/// Client of one dataset.
pub struct BigQueryClient {
    project: String,
    dataset: String,
    endpoint: Option<String>,
    options: BigQueryOptions,
    apis: OnceCell<Apis>,
    /// Location of the dataset, set once its tables are verified.
    location: OnceCell<String>,
    last_error: Mutex<Option<String>>,
}

struct Apis {
    jobs: JobService,
    tables: TableService,
}

/// A completed load job.
pub struct FinishedJob {
    /// Time of its end, milliseconds since 1970, by BigQuery's clock.
    pub at: u64,
    pub how: JobResult,
}

/// Result of a load job. Final: a failed job never loads rows.
pub enum JobResult {
    /// All rows are loaded.
    Loaded,
    /// No row is loaded, because rows are invalid.
    InvalidRows(String),
    /// No row is loaded; another attempt under another id may succeed.
    Transient(String),
}

impl BigQueryClient {
    /// Connects with its first request.
    pub fn new(project: &str, dataset: &str, endpoint: Option<String>, options: BigQueryOptions) -> Self {
        Self {
            project: project.to_owned(),
            dataset: dataset.to_owned(),
            endpoint,
            options,
            apis: OnceCell::new(),
            location: OnceCell::new(),
            last_error: Mutex::default(),
        }
    }

    /// `project.dataset`.
    pub fn dataset(&self) -> String {
        format!("{}.{}", self.project, self.dataset)
    }

    /// Initial pause after a failed job.
    pub fn again(&self) -> Duration {
        self.options.again
    }

    /// Records an error, to be reported at a timeout.
    pub fn set_last_error(&self, error: &str) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    /// The last error, as the end of a sentence.
    pub fn last_error(&self) -> String {
        let last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        last_error
            .as_ref()
            .map(|last_error| format!("; the last error was: {last_error}"))
            .unwrap_or_default()
    }

    async fn apis(&self) -> Result<&Apis, Error> {
        let connect = async || {
            let (mut jobs, mut tables) = (JobService::builder(), TableService::builder());
            if let Some(endpoint) = &self.endpoint {
                let credentials = anonymous::Builder::new().build();
                jobs = jobs.with_endpoint(endpoint).with_credentials(credentials.clone());
                tables = tables.with_endpoint(endpoint).with_credentials(credentials);
            }
            let failed =
                |error: &dyn std::error::Error| Error::Transient(format!("BigQuery: {}", chain(error)));
            Ok(Apis {
                jobs: jobs.build().await.map_err(|error| failed(&error))?,
                tables: tables.build().await.map_err(|error| failed(&error))?,
            })
        };
        self.apis.get_or_try_init(connect).await
    }

    /// Location of the dataset. Verifies that its tables have the columns of the rows.
    ///
    /// # Errors
    /// Returns an error if a column is missing, because the resulting rejection would not be caused by the
    /// rows.
    pub async fn ready(&self) -> Result<&str, Error> {
        let location = self.location.get_or_try_init(async || {
            let mut location = String::new();
            for table in &TABLES {
                let name = format!("{}.{}", self.dataset(), table.name);
                let found = self.table(table.name).await?;
                let has: BTreeMap<_, _> = found.schema.into_iter().flat_map(|schema| schema.fields)
                    .map(|field| (field.name, (field.r#type, field.mode)))
                    .collect();
                for column in table.columns() {
                    let fits = |(kind, mode): &(String, String)| {
                        spelled(kind) == column.kind.bigquery() && (mode != "REQUIRED" || column.required)
                    };
                    if !has.get(&column.name).is_some_and(fits) {
                        return Err(Error::Transient(format!(
                            "BigQuery: table {name} has no column {} for {}: update it to schemas/bigquery/{}.json",
                            column.name, column.kind.bigquery(), table.name
                        )));
                    }
                }
                location = found.location;
            }
            Ok(location)
        });
        location.await.map(String::as_str)
    }

    async fn table(&self, name: &str) -> Result<google_cloud_bigquery_v2::model::Table, Error> {
        let tables = &self.apis().await?.tables;
        let request = || {
            let call = tables
                .get_table()
                .set_project_id(&self.project)
                .set_dataset_id(&self.dataset)
                .set_table_id(name);
            call.with_retry_policy(NeverRetry).with_attempt_timeout(self.options.attempt).send()
        };
        self.until_answered(request).await.map_err(|failed| unavailable(&failed))
    }

    /// Waits for the end of a load job, and creates it if absent. An id permanently identifies one job.
    ///
    /// # Errors
    /// Returns an error if the job could not be created. It may still be running.
    pub async fn load(&self, id: &str, table: &str, uris: &[String]) -> Result<FinishedJob, Error> {
        let location = self.ready().await?;
        let jobs = &self.apis().await?.jobs;
        let wanted = Job::new()
            .set_job_reference(
                JobReference::new()
                    .set_project_id(&self.project)
                    .set_job_id(id)
                    .set_location(location.to_owned()),
            )
            .set_configuration(JobConfiguration::new().set_load(self.loading(table, uris)));
        let insert = || {
            let call = jobs.insert_job().set_project_id(&self.project).set_job(wanted.clone());
            call.with_retry_policy(NeverRetry).with_attempt_timeout(self.options.attempt).send()
        };
        let get = || {
            let call = jobs.get_job().set_project_id(&self.project).set_job_id(id).set_location(location);
            call.with_retry_policy(NeverRetry).with_attempt_timeout(self.options.attempt).send()
        };
        let mut interval = self.options.poll_interval;
        let mut known = None;
        loop {
            let job = match known.take() {
                Some(job) => job,
                None => match self.until_answered(insert).await {
                    Ok(job) => job,
                    // An earlier call created the job, or this call did before a lost response.
                    Err(failed) if failed.http_status_code() == Some(409) => {
                        self.until_answered(get).await.map_err(|failed| unavailable(&failed))?
                    }
                    Err(failed) => return Err(unavailable(&failed)),
                },
            };
            if let Some(ended) = finished_job(&job) {
                return Ok(ended);
            }
            tokio::time::sleep(interval).await;
            interval = (interval + interval / 2).min(self.options.poll_interval * 8);
            known = Some(self.until_answered(get).await.map_err(|failed| unavailable(&failed))?);
        }
    }

    fn loading(&self, table: &str, uris: &[String]) -> JobConfigurationLoad {
        let table = TableReference::new()
            .set_project_id(&self.project)
            .set_dataset_id(&self.dataset)
            .set_table_id(table);
        JobConfigurationLoad::new()
            .set_source_uris(uris)
            .set_destination_table(table)
            .set_source_format("NEWLINE_DELIMITED_JSON")
            .set_create_disposition("CREATE_NEVER")
            .set_write_disposition("WRITE_APPEND")
            .set_max_bad_records(0)
            .set_ignore_unknown_values(false)
            .set_autodetect(false)
    }

    /// All rows of a statement, cell by cell. Values are passed as parameters and are never part of the
    /// statement.
    pub async fn query(
        &self,
        statement: &str,
        values: Vec<QueryParameter>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let location = self.ready().await?;
        let jobs = &self.apis().await?.jobs;
        let format = DataFormatOptions::new().set_use_int64_timestamp(true);
        // BigQuery's wait is half of the request timeout: an incomplete response is polled again.
        let wait = u32::try_from(self.options.attempt.as_millis() / 2).unwrap_or(u32::MAX);
        let request = QueryRequest::new()
            .set_query(statement)
            .set_use_legacy_sql(false)
            .set_parameter_mode("NAMED")
            .set_query_parameters(values)
            .set_location(location)
            .set_format_options(format.clone())
            .set_timeout_ms(wait);
        // The statement only reads, so repeating it is harmless.
        let ask = || {
            let call = jobs.query().set_project_id(&self.project).set_query_request(request.clone());
            call.with_retry_policy(NeverRetry).with_attempt_timeout(self.options.attempt).send()
        };
        let first = self.until_answered(ask).await.map_err(|failed| unavailable(&failed))?;
        let job = first.job_reference.map(|job| job.job_id).unwrap_or_default();
        let (mut complete, mut rows, mut page) =
            (first.job_complete == Some(true), first.rows, first.page_token);
        let mut interval = self.options.poll_interval;
        while !complete || !page.is_empty() {
            if !complete {
                tokio::time::sleep(interval).await;
                interval = (interval + interval / 2).min(self.options.poll_interval * 8);
            }
            let ask = || {
                let call = jobs.get_query_results().set_project_id(&self.project).set_job_id(&job);
                let call = call
                    .set_location(location)
                    .set_page_token(&page)
                    .set_timeout_ms(wait)
                    .set_format_options(format.clone());
                call.with_retry_policy(NeverRetry).with_attempt_timeout(self.options.attempt).send()
            };
            let more = self.until_answered(ask).await.map_err(|failed| unavailable(&failed))?;
            complete = more.job_complete == Some(true);
            rows.extend(more.rows);
            page = more.page_token;
        }
        rows.into_iter().map(cells).collect()
    }

    /// Retries until the response is final. The caller sets the timeout.
    async fn until_answered<T, A>(&self, mut ask: impl FnMut() -> A) -> Result<T, Failed>
    where
        A: Future<Output = Result<T, Failed>>,
    {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.options.poll_interval.min(Duration::from_millis(200)))
            .with_max_delay(Duration::from_secs(3))
            .without_max_times()
            // Concurrent callers must not retry together.
            .with_jitter();
        let is_transient = |failed: &Failed| {
            let status = failed.http_status_code();
            let passes = status.is_none_or(|status| matches!(status, 408 | 429 | 500..));
            passes && !failed.is_authentication() && !failed.is_binding()
        };
        // A request's future has the size of all job fields: too large for the callers' stacks.
        let attempt = || Box::pin(ask());
        attempt.retry(pauses).when(is_transient).notify(|failed, _| self.set_last_error(&chain(failed))).await
    }
}

/// BigQuery has two names for some types.
fn spelled(kind: &str) -> &str {
    match kind {
        "INT64" => "INTEGER",
        "FLOAT64" => "FLOAT",
        other => other,
    }
}

fn unavailable(failed: &Failed) -> Error {
    let message = failed.status().map_or_else(|| chain(failed), |status| status.message.clone());
    Error::Transient(match failed.http_status_code() {
        Some(code) => format!("BigQuery answered {code}: {message}"),
        None => format!("BigQuery: {message}"),
    })
}

/// Result of a job; `None` until its state is `DONE`.
fn finished_job(job: &Job) -> Option<FinishedJob> {
    let status = job.status.as_ref().filter(|status| status.state == "DONE")?;
    let at = job.statistics.as_ref().map_or(0, |statistics| statistics.end_time.unsigned_abs());
    let Some(error) = &status.error_result else { return Some(FinishedJob { at, how: JobResult::Loaded }) };
    let mut messages: Vec<_> =
        [error].into_iter().chain(&status.errors).map(|error| error.message.as_str()).collect();
    messages.dedup();
    let why = format!("{}: {}", error.reason, messages.join("; "));
    let how = if error.reason == "invalid" { JobResult::InvalidRows(why) } else { JobResult::Transient(why) };
    Some(FinishedJob { at, how })
}

/// Cells of a row in the API's form, `{"f": [{"v": ...}, ...]}`.
fn cells(mut row: Map<String, Value>) -> Result<Vec<Value>, Error> {
    let Some(Value::Array(cells)) = row.remove("f") else {
        return Err(Error::Transient(format!("BigQuery returned a row without cells: {row:?}")));
    };
    Ok(cells.into_iter().map(|mut cell| cell["v"].take()).collect())
}
