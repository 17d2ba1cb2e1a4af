//! The format of workflow files.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf};

use model::{
    ByteSize, ClusterCost, Collective, Datatype, Every, ExtraArgs, Image, Limits, Locate, Notify, Soak, Span,
    System,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use triggers::Triggers;

/// `workflows/<name>.yaml`. Paths are relative to this file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "A Burnin workflow")]
pub struct WorkflowFile {
    /// Short name: a letter, then lower-case letters, digits and `-`.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9-]{0,30}$"))]
    pub name: String,
    /// Description for display.
    #[serde(default)]
    pub description: String,
    /// File with the user's values, as for `--values`, which replaces it.
    pub values: Option<PathBuf>,
    /// Image of the benchmark. Without one, the cluster must have the programs.
    pub image: Option<ImageFile>,
    /// Cluster of the benchmark.
    pub cluster: Option<ClusterFile>,
    /// Benchmark to run and its criteria.
    pub benchmark: Option<BenchmarkFile>,
    /// Checks to run one after another on the cluster, instead of a single benchmark.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub checks: Vec<CheckFile>,
    /// File with the checks, for several workflows: see `suites`. `--set checks.NAME.FIELD=` applies to it.
    pub suite: Option<PathBuf>,
    /// Repeats the checks, round after round, for up to 168 hours.
    pub soak: Option<Soak>,
    /// After a failed verdict, find the bad nodes; `{}` for the defaults.
    pub locate: Option<Locate>,
    /// Timeouts and number of attempts.
    #[serde(default)]
    pub limits: Limits,
    /// Price of the cluster and budget of the run.
    pub cost: Option<ClusterCost>,
    /// Notification targets: GitHub, Slack, programs.
    #[serde(default)]
    #[schemars(schema_with = "channels::schema")]
    pub notify: Vec<Notify>,
    /// Automatic triggers.
    #[serde(default)]
    pub on: Triggers,
    /// Fields that network requests for a run may override, such as `limits.job`. The command line may
    /// override every field.
    #[serde(default)]
    pub parameters: Vec<String>,
}

/// Source of the image.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageFile {
    /// Built for the run.
    Build(BuildFile),
    /// An existing image, identified by its digest.
    Prebuilt(Image),
}

/// Config and input of the image's build.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildFile {
    /// A Cloud Build config.
    pub config: PathBuf,
    /// Folder provided to the steps as their workspace.
    pub source: Option<PathBuf>,
    /// Git repository provided to the steps as their workspace, instead of a folder.
    pub repository: Option<RepositoryFile>,
    /// Values for the config's `_NAME` substitutions.
    #[serde(default)]
    pub substitutions: BTreeMap<String, String>,
}

/// A Git repository. A run that a push to it starts builds the pushed commit.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepositoryFile {
    /// Address for `git fetch`, without a password.
    pub url: String,
    /// Connection of the repository to Cloud Build, `projects/*/locations/*/connections/*/repositories/*`, for a private
    /// repository. Local builds use git's own credentials.
    pub connection: Option<String>,
    /// Branch, tag or commit for runs that no push started.
    #[serde(default = "default_revision")]
    pub revision: String,
}

impl RepositoryFile {
    /// Problems by field.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let unsafe_word = |word: &str| {
            word.is_empty()
                || word.starts_with('-')
                || word.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        // git would parse it as an option, or run an arbitrary program.
        if unsafe_word(&self.url) || self.url.contains("::") {
            problems.push(("url", "expected a URL or a path of a repository".to_owned()));
        }
        let user = self.url.split_once("://").and_then(|(_, rest)| rest.split('/').next()?.split_once('@'));
        if user.is_some_and(|(user, _)| user.contains(':')) {
            let why = "contains a password, which every reader of the run could see; use `connection`, or git's own credentials";
            problems.push(("url", why.to_owned()));
        }
        let wrong = |c: char| "~^:?*[\\".contains(c);
        if unsafe_word(&self.revision) || self.revision.contains("..") || self.revision.contains(wrong) {
            problems.push((
                "revision",
                format!("expected a branch, a tag or a commit, found `{}`", self.revision),
            ));
        }
        if let Some(connection) = &self.connection {
            let parts: Vec<_> = connection.split('/').collect();
            let kinds: Vec<_> = parts.iter().step_by(2).copied().collect();
            if parts.len() != 8
                || kinds != ["projects", "locations", "connections", "repositories"]
                || parts.contains(&"")
            {
                let expected = "projects/PROJECT/locations/REGION/connections/NAME/repositories/NAME";
                problems.push(("connection", format!("expected {expected}, found `{connection}`")));
            }
        }
        problems
    }
}

fn default_revision() -> String {
    "HEAD".to_owned()
}

/// Source of the cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterFile {
    /// Provisioned for each run and released afterwards.
    #[serde(rename = "rent")]
    Provisioned(ProvisionedFile),
    /// An existing cluster, left unchanged.
    Existing(ExistingFile),
}

/// A cluster to provision.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProvisionedFile {
    /// Processes on the agent's host, one per node.
    Processes {
        /// Number of nodes, 1 to 64. A host with GPUs is always one node with all its GPUs.
        #[schemars(range(min = 1, max = 64))]
        nodes: u32,
    },
    /// A cluster that build steps provision and release.
    Deployed(Box<DeployedFile>),
}

/// A cluster that Cloud Build configs provision and release. docs/CLUSTERS.md describes their substitutions
/// and required output files.
#[derive(Clone, Debug, Deserialize)]
pub struct DeployedFile {
    /// Provisions the cluster.
    pub deploy: BuildFile,
    /// Releases the cluster.
    pub destroy: BuildFile,
    /// Values for substitutions of both configs, if the configs declare them. Settings of the cluster such as the
    /// number of nodes are passed by Burnin.
    #[serde(default)]
    pub substitutions: BTreeMap<String, String>,
    /// A JSON Schema of the substitutions, checked before a run.
    pub parameters: Option<PathBuf>,
    /// Parts that are kept after the run for later runs.
    #[serde(default)]
    pub keep: cluster_deployed::RetentionPeriods,
    /// The provisioned cluster: settings by the name of its kind, exactly one.
    #[serde(flatten)]
    pub systems: BTreeMap<String, serde_json::Value>,
}

impl JsonSchema for DeployedFile {
    fn schema_name() -> Cow<'static, str> {
        "DeployedFile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let build = |generator: &mut SchemaGenerator, description: &str| {
            let mut build = generator.subschema_for::<BuildFile>();
            build.insert("description".to_owned(), description.into());
            build
        };
        let mut properties = serde_json::Map::new();
        properties.insert("deploy".to_owned(), build(generator, "Provisions the cluster.").into());
        properties.insert("destroy".to_owned(), build(generator, "Releases the cluster.").into());
        let shared = "Values for substitutions of both configs, if the configs declare them. Settings of the cluster \
                      such as the number of nodes are passed by Burnin.";
        properties.insert(
            "substitutions".to_owned(),
            serde_json::json!({"description": shared, "type": "object", "additionalProperties": {"type": "string"}}),
        );
        let parameters = "A JSON Schema of the substitutions, checked before a run.";
        properties.insert(
            "parameters".to_owned(),
            serde_json::json!({"description": parameters, "type": ["string", "null"]}),
        );
        let mut keep = generator.subschema_for::<cluster_deployed::RetentionPeriods>();
        let description =
            "Parts that are kept after the run for later runs, with their retention period: {base: 30d}.";
        keep.insert("description".to_owned(), description.into());
        properties.insert("keep".to_owned(), keep.into());
        for kind in clusters::KINDS.into_iter().filter(|kind| kind.can_be_deployed()) {
            let form = kind.form();
            let mut settings = (form.schema)(generator);
            let description = format!("The provisioned cluster, if it is {}", lower_first(form.description));
            settings.insert("description".to_owned(), description.into());
            properties.insert(form.kind.to_owned(), settings.into());
        }
        schemars::json_schema!({
            "description": "A cluster that Cloud Build configs provision and release, of exactly one kind. docs/CLUSTERS.md \
                            describes their substitutions and required output files.",
            "type": "object",
            "properties": properties,
            "required": ["deploy", "destroy"],
            "additionalProperties": false,
        })
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// A kind of existing cluster and its settings.
#[derive(Clone, Debug, Deserialize)]
pub struct SystemFile(pub System);

impl JsonSchema for SystemFile {
    fn schema_name() -> Cow<'static, str> {
        "SystemFile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = clusters::schema(generator, |_| true);
        schema.insert("description".to_owned(), "Kinds of existing clusters.".into());
        schema
    }
}

/// An existing cluster, named as its scheduler or provider names it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExistingFile {
    /// Kind of the cluster and its settings.
    pub system: SystemFile,
    /// Name in its own system.
    pub name: String,
}

/// The only measurement of a workflow without checks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkFile {
    /// Benchmark program and arguments.
    pub workload: WorkloadFile,
    /// File with the criteria.
    pub criteria: PathBuf,
    /// Baseline file from `burnin baseline`. Default: learned from the cluster's own passed runs.
    pub baseline: Option<PathBuf>,
}

/// A file with checks for several workflows. Paths are relative to this file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "A suite of checks of Burnin")]
pub struct SuiteFile {
    /// Description for display.
    #[serde(default)]
    pub description: String,
    /// Checks to run one after another.
    #[schemars(length(min = 1, max = 100))]
    pub checks: Vec<CheckFile>,
}

/// A check: a benchmark with its own job, logs, limit and verdict.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckFile {
    /// Name, unique in the workflow: a letter, then letters, digits, `-`, `_` and `.`, at most 60 characters.
    #[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9_.-]{0,59}$"))]
    pub name: String,
    /// Program of nccl-tests and its arguments. Either this or `command`.
    pub workload: Option<WorkloadFile>,
    /// Any other program and its arguments; `read` states its output. A program without `/` is looked up in the image, in the
    /// cluster's `programs` folder, then on the `PATH` of the node.
    #[serde(default)]
    pub command: Vec<String>,
    /// The command is started once for each of these parts of the cluster. Default: `node`.
    pub every: Option<Every>,
    /// Maximum number of rounds of `every: pair`; in a round each node is in at most one pair. Default: all pairs, in
    /// `nodes` - 1 rounds, or `nodes` rounds if the number of nodes is odd.
    #[schemars(range(min = 1, max = 4096))]
    pub rounds: Option<u32>,
    /// Container image of the command, `NAME@sha256:DIGEST`, instead of the workflow's. Kubernetes only.
    pub image: Option<String>,
    /// Format of the command's output: a name of docs/METRICS.md, or the rules of a declared parser.
    pub read: Option<ReadFile>,
    /// File with the criteria.
    pub criteria: PathBuf,
    /// Baseline file from `burnin baseline`. Default: learned from the check's own passed runs.
    pub baseline: Option<PathBuf>,
    /// Environment variables of each rank; they override those of the cluster's settings.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Names of earlier checks that must pass; otherwise this check is skipped. The name of a check with a matrix selects all checks of
    /// the matrix.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Reason why this check does not run here, such as `no InfiniBand`. Reports state the reason. Checks that need
    /// this check still run.
    pub skip: Option<String>,
    /// Maximum duration of the check's job. Default: `limits.job`.
    pub limit: Option<Span>,
    /// Number of repetitions: the checks `NAME-1`, `NAME-2`, ..., each with its own job and verdict.
    #[schemars(range(min = 2, max = 100))]
    pub repeat: Option<u32>,
    /// Creates one check for each combination, named `NAME-COLLECTIVE-DATATYPE-ENVIRONMENT`; an absent list adds no part to the name.
    pub matrix: Option<MatrixFile>,
}

/// Format of the output of a command.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReadFile {
    /// Name of a built-in format, such as `osu`.
    Format(String),
    /// Rules of a declared parser.
    Declared(#[schemars(with = "measure::Declaration")] serde_json::Value),
}

/// Lists whose combinations become checks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatrixFile {
    /// Collectives, instead of the workload's. Cannot be combined with `command`.
    #[serde(default)]
    pub collectives: Vec<Collective>,
    /// Element types, instead of the workload's. Cannot be combined with `command`.
    #[serde(default)]
    pub datatypes: Vec<Datatype>,
    /// Environment variables by a short name, such as `ring: {NCCL_ALGO: Ring}`; they override the check's own.
    #[serde(default)]
    pub environments: BTreeMap<String, BTreeMap<String, String>>,
}

/// One nccl-tests program and its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Operation that the program measures.
    pub collective: Collective,
    /// Smallest message (`-b`).
    pub min_bytes: ByteSize,
    /// Largest message (`-e`).
    pub max_bytes: ByteSize,
    /// Factor between consecutive sizes (`-f`). Default: 2.
    #[schemars(range(min = 2, max = 1024))]
    pub step_factor: Option<u32>,
    /// Difference between consecutive sizes (`-i`), instead of a factor.
    pub step_bytes: Option<ByteSize>,
    /// Timed iterations per size (`-n`).
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100_000))]
    pub iterations: u32,
    /// Untimed warm-up iterations (`-w`).
    #[serde(default = "five")]
    #[schemars(range(max = 100_000))]
    pub warmup_iterations: u32,
    /// Check the data (`-c`).
    #[serde(default = "yes")]
    pub check: bool,
    /// Element type (`-d`). Default: nccl-tests' own, `float`.
    pub datatype: Option<Datatype>,
    /// Other options, by nccl-tests' long names.
    #[serde(default)]
    pub extra_args: ExtraArgs,
}

const fn five() -> u32 {
    5
}
const fn twenty() -> u32 {
    20
}
const fn yes() -> bool {
    true
}
