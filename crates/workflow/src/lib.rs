//! Reads, checks and resolves workflow files.
//!
//! A file is checked against the JSON Schema of its type and then for rules that a schema cannot express. All
//! problems are reported at once, each with file, line, field and expectation. A [`Resolved`] workflow
//! contains the content of every file it names, so that a run never reads a file again.

mod archive;
mod document;
mod feasible;
mod file;
mod parameters;
mod problem;
mod reader;
mod resolve;
mod rules;
mod schema;
mod similar;

pub use archive::SourceArchive;
pub use document::YamlDocument;
pub use file::{
    BenchmarkFile, BuildFile, ClusterFile, DeployedFile, ExistingFile, ImageFile, ProvisionedFile, SuiteFile,
    SystemFile, WorkflowFile, WorkloadFile,
};
pub use problem::{Excerpt, FileProblem, FileProblems, Position};
pub use resolve::{
    Override, Resolved, WorkflowHeader, header_of, read_header, resolve, resolve_document, resolve_on,
    resolve_with_values,
};
pub use triggers::Triggers;
