//! Detects runs that cannot succeed, before they incur cost. Without side effects: the findings depend only on the
//! workflow.

use std::time::Duration;

use cluster_api::{ClusterLayout, Substitution};
use cluster_deployed::Deployed;
use model::{
    Benchmark, BuildSpec, CheckIndex, ClusterCost, ClusterSpec, Collective, CommandLine, Criteria, Every,
    Limits, MetricCriterion, OutputFormat, PROCESSES, Program, Span, System, Workflow, Workload,
    measurement::size, metric::Better,
};
use verdict::bounds::{Bounds, JudgedTable, same_size};

/// Maximum duration in a workflow: a longer one is a mistake, and sums must not overflow.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The file that sets a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSource {
    /// The workflow file; the field is a complete path.
    Workflow,
    /// The workflow file; the field is relative to this check, or to `benchmark`.
    Check(CheckIndex),
    /// The criteria file of this check.
    Criteria(CheckIndex),
}

/// A reason why a run cannot succeed, or may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeasibilityFinding {
    pub file: FieldSource,
    pub field: String,
    /// The problem with its values, and the correction.
    pub message: String,
    /// Whether the run may still succeed.
    pub warning: bool,
}

/// Returns every reason why runs of this workflow cannot succeed, or may fail.
pub fn findings(workflow: &Workflow) -> Vec<FeasibilityFinding> {
    let mut found = FeasibilityFindings::default();
    found.limits(&workflow.limits);
    let system = workflow.cluster.as_ref().map(ClusterSpec::system);
    for (check, benchmark) in benchmarks(workflow) {
        found.benchmark(check, benchmark, system);
    }
    if let Some(system) = system {
        found.ranks(system, workflow);
        found.locate(workflow, system);
    }
    if let Some(ClusterSpec::Provisioned(system)) = &workflow.cluster {
        found.lease(workflow);
        if let Some(cost) = &workflow.cost {
            found.budget(cost, workflow, system);
        }
        if let Some(deployed) = Deployed::of(system) {
            found.check_substitutions(&deployed);
            found.stated_twice(&deployed);
        }
    }
    found.0
}

/// Checks with their positions; a single benchmark is one check.
fn benchmarks(workflow: &Workflow) -> impl Iterator<Item = (CheckIndex, &Benchmark)> {
    workflow.check_indices().filter_map(|check| Some((check, workflow.benchmark_of(check)?)))
}

#[derive(Default)]
struct FeasibilityFindings(Vec<FeasibilityFinding>);

impl FeasibilityFindings {
    fn add(&mut self, file: FieldSource, field: &str, warning: bool, message: String) {
        self.0.push(FeasibilityFinding { file, field: field.to_owned(), message, warning });
    }

    fn error(&mut self, field: &str, message: String) {
        self.add(FieldSource::Workflow, field, false, message);
    }

    fn warning(&mut self, field: &str, message: String) {
        self.add(FieldSource::Workflow, field, true, message);
    }

    fn limits(&mut self, limits: &Limits) {
        for (name, span) in [
            ("image", limits.image),
            ("cluster", limits.cluster),
            ("job", limits.job),
            ("logs", limits.logs),
            ("results", limits.results),
            ("verdict", limits.verdict),
            ("locate", limits.locate),
            ("lease", limits.lease),
            ("patience", limits.patience),
            ("grace", limits.grace),
        ] {
            if span.0.is_zero() {
                self.error(&format!("limits.{name}"), "0s is too short; write a span such as 30m".to_owned());
            } else if span.0 > LONGEST {
                self.error(&format!("limits.{name}"), format!("{span} is longer than 366 days; write less"));
            }
        }
    }

    fn benchmark(&mut self, check: CheckIndex, benchmark: &Benchmark, system: Option<&System>) {
        let Benchmark { program, criteria, baseline, .. } = benchmark;
        let workload = match program {
            Program::NcclTests(workload) => workload,
            Program::Command(command) => return self.command(check, command, benchmark, system),
        };
        let ranks = system.and_then(ranks);
        let bounds = criteria.bound_bandwidth() || baseline.is_some();
        if !bounds && !criteria.data_only {
            let message = "no floor and no reference bounds the bandwidth, so any speed passes; add `floors`, \
                           `references` or a `line_rate`, or write `data_only: true` if that is intended";
            self.add(FieldSource::Criteria(check), "", false, message.to_owned());
        }
        for at in 0..criteria.metrics.len() {
            let message = "is not judged for nccl-tests; write `floors` or `references`";
            self.add(
                FieldSource::Criteria(check),
                &format!("metrics[{at}].metric"),
                false,
                message.to_owned(),
            );
        }
        if bounds && criteria.data_only {
            let message = "contradicts the floors, references or baseline of the check; remove one of them";
            self.add(FieldSource::Criteria(check), "data_only", false, message.to_owned());
        }
        if criteria.require_check && !workload.check {
            let message = "false, but the criteria require checked data (`require_check`): the verdict would never be pass";
            self.add(FieldSource::Check(check), "workload.check", false, message.to_owned());
        }
        if let (Some(root), Some(ranks)) = (workload.extra_args.root, ranks)
            && root >= ranks
        {
            let message = format!(
                "{root} is not a rank; the {ranks} ranks of the cluster are 0 to {}",
                ranks.saturating_sub(1)
            );
            self.add(FieldSource::Check(check), "workload.extra_args.root", false, message);
        }
        let sizes = measured(workload, ranks);
        self.bounds(check, criteria, workload, (ranks, sizes));
    }

    /// The criteria must judge metrics that the program prints.
    fn command(
        &mut self,
        check: CheckIndex,
        command: &CommandLine,
        benchmark: &Benchmark,
        system: Option<&System>,
    ) {
        let criteria = &benchmark.criteria;
        let kind = system.and_then(|system| clusters::kind(system.kind()));
        if command.image.is_some() && kind.is_some_and(|kind| !kind.runs_containers()) {
            let message = "applies to Kubernetes only; remove it: on other clusters the command is a program of the run's image or of the node";
            self.add(FieldSource::Check(check), "image", false, message.to_owned());
        }
        if command.every == Every::Pair && system.is_some_and(|system| system.nodes() == 1) {
            let message = "`pair` needs two nodes or more, and the cluster has one; raise `nodes`, or write `every: node`";
            self.add(FieldSource::Check(check), "every", false, message.to_owned());
        }
        let printed = |name: &str| match &command.read {
            OutputFormat::Format(format) => measure::format(format)
                .is_none_or(|format| format.metrics.iter().any(|known| known.describes(name))),
            OutputFormat::Declared(rules) => rules["name"].as_str() == Some(name),
        };
        for (at, criterion) in criteria.metrics.iter().enumerate() {
            if let Some(message) = direction(&command.read, criterion) {
                self.add(FieldSource::Criteria(check), &format!("metrics[{at}].better"), false, message);
            }
            if !printed(&criterion.metric) {
                let message = format!(
                    "`{}` is not a metric of the program's output, so the verdict would never be pass; `docs/METRICS.md` lists them",
                    criterion.metric
                );
                self.add(FieldSource::Criteria(check), &format!("metrics[{at}].metric"), false, message);
            }
            if let Some(rule) = without_unit(&command.read, criterion) {
                let message = format!(
                    "is missing: the program prints the unit of `{}`, which its options may change, and `{rule}` would apply in any known \
                     unit; write the unit of `{rule}`",
                    criterion.metric
                );
                self.add(FieldSource::Criteria(check), &format!("metrics[{at}].unit"), true, message);
            }
        }
        if criteria.bound_bandwidth() {
            let message = "the floors and references are those of nccl-tests, which this check does not run; write `metrics`";
            self.add(FieldSource::Criteria(check), "", false, message.to_owned());
        }
        let OutputFormat::Declared(rules) = &command.read else { return };
        if benchmark.baseline.is_none() && !criteria.metrics.iter().any(MetricCriterion::bounds) {
            let message = "no criterion bounds the declared metric, so any value passes; add a floor, ceiling, reference, device_reference or peers to `metrics`";
            self.add(FieldSource::Criteria(check), "metrics", false, message.to_owned());
        }
        for (at, criterion) in criteria.metrics.iter().enumerate() {
            // The number of nodes and of pairs is known, so a node or pair without a value is detected.
            let counted = matches!(
                (command.every, rules["scope"].as_str()),
                (Every::Node, Some("node")) | (Every::Pair, Some("pair"))
            );
            if criterion.subjects.is_none() && !counted {
                let message = "is missing: without the expected number of subjects, an absent value is not detected; write the number";
                self.add(
                    FieldSource::Criteria(check),
                    &format!("metrics[{at}].subjects"),
                    false,
                    message.to_owned(),
                );
            }
        }
    }

    /// Every size of the floors and the reference that the verdict will use must be measured.
    fn bounds(
        &mut self,
        check: CheckIndex,
        criteria: &Criteria,
        workload: &Workload,
        (ranks, sizes): (Option<u32>, Vec<u64>),
    ) {
        let is_measured = |bytes: u64| sizes.iter().any(|size| same_size(*size, bytes));
        let subject = JudgedTable {
            collective: Some(workload.collective.as_str().into()),
            ranks,
            sizes: sizes.clone(),
            ..JudgedTable::default()
        };
        let bounds = Bounds::of(&subject, criteria);
        for floor in bounds.floors.iter().filter(|floor| !is_measured(floor.size_bytes)) {
            let stated = criteria.floors.iter().position(|stated| stated == floor);
            let field = stated.map_or("line_rate".to_owned(), |at| format!("floors[{at}].size_bytes"));
            self.add(FieldSource::Criteria(check), &field, false, not_measured(floor.size_bytes, &sizes));
        }
        let of_others = criteria.references.iter().all(|it| it.collective != workload.collective);
        // A line rate bounds any collective, once the number of ranks is known.
        if bounds.inapplicable && (ranks.is_some() || (criteria.line_rate.is_none() && of_others)) {
            let message =
                format!("contain no curve for {}, which the workflow measures; add one", subject.name());
            self.add(FieldSource::Criteria(check), "references", false, message);
        }
        let Some(reference) = bounds.reference else { return };
        let at = criteria.references.iter().position(|stated| stated == &*reference);
        for (point, of) in reference.points.iter().enumerate().filter(|(_, of)| !is_measured(of.size_bytes)) {
            let field = at
                .map_or("references".to_owned(), |at| format!("references[{at}].points[{point}].size_bytes"));
            self.add(FieldSource::Criteria(check), &field, false, not_measured(of.size_bytes, &sizes));
        }
    }

    /// Compares ranks and nodes of the cluster with the criteria.
    fn ranks(&mut self, system: &System, workflow: &Workflow) {
        let Some((field, ClusterLayout { nodes, ranks_per_node, gpus_per_node })) = layout(system) else {
            return;
        };
        if let Some(gpus) = gpus_per_node.filter(|gpus| *gpus > 0 && ranks_per_node > *gpus) {
            let message =
                format!("{ranks_per_node} ranks on {gpus} GPUs (`gpus_per_node`); each rank needs a GPU");
            self.error(&format!("{field}.ranks_per_node"), message);
        }
        for (check, Benchmark { criteria, .. }) in benchmarks(workflow) {
            if let Some(required) = criteria.ranks_per_node.filter(|required| *required != ranks_per_node) {
                let message =
                    format!("{required}, but the workflow runs {ranks_per_node} ({field}.ranks_per_node)");
                self.add(FieldSource::Criteria(check), "ranks_per_node", false, message);
            }
            if let Some(required) = criteria.min_nodes.filter(|required| *required > nodes) {
                let message = format!("{required}, but the workflow has {nodes} ({field}.nodes)");
                self.add(FieldSource::Criteria(check), "min_nodes", false, message);
            }
        }
    }

    fn locate(&mut self, workflow: &Workflow, system: &System) {
        let nodes = system.nodes();
        if workflow.locate.is_some() && nodes < 3 && system.kind() != PROCESSES {
            let message = format!(
                "{nodes} nodes make one pair at most, which cannot identify a bad node; a search needs 3 or more"
            );
            self.warning("locate", message);
        }
    }

    /// The stages that need the cluster must fit into the lease.
    fn lease(&mut self, workflow: &Workflow) {
        let limits = &workflow.limits;
        if let Some(soak) = &workflow.soak {
            let needed = Span(limits.cluster.0.saturating_add(soak.duration.0));
            if needed > limits.lease {
                let message = format!(
                    "{} is shorter than the soak ({}) and limits.cluster ({}) together; write more than {needed}",
                    limits.lease, soak.duration, limits.cluster
                );
                self.error("limits.lease", message);
            }
            return;
        }
        let mut stages = vec![("cluster", limits.cluster)];
        for check in workflow.check_indices() {
            let last = check.0 + 1 == workflow.check_count();
            stages.extend([("job", workflow.job_limit(check)), ("logs", limits.logs)]);
            // The search for bad nodes uses the rest of the lease. A later check waits for the verdict on an earlier one.
            if workflow.locate.is_some() || !last {
                stages.push(("verdict", limits.verdict));
            }
        }
        let needed = stages.iter().fold(Duration::ZERO, |sum, (_, span)| sum.saturating_add(span.0));
        if needed <= limits.lease.0 {
            return;
        }
        if workflow.check_count() > 1 {
            // Jobs rarely take their whole limit, so with many checks the sum exceeds the real duration.
            let message = format!(
                "{} is shorter than the sum of all limits, {}: the cluster may end before the last check; raise it, or give \
                 the checks a `limit`",
                limits.lease,
                Span(needed)
            );
            self.warning("limits.lease", message);
            return;
        }
        let names: Vec<_> = stages.iter().map(|(name, span)| format!("{name} {span}")).collect();
        let message = format!(
            "{} is shorter than its stages ({}); write at least {}",
            limits.lease,
            names.join(", "),
            Span(needed)
        );
        self.error("limits.lease", message);
    }

    fn budget(&mut self, cost: &ClusterCost, workflow: &Workflow, system: &System) {
        let limits = &workflow.limits;
        let Some(budget) = cost.budget else { return };
        let Some(pays) = budget.pays_for(system.nodes(), cost.node_hour) else { return };
        let (nodes, price) = (system.nodes(), cost.node_hour);
        let mut needed = limits.cluster.0;
        for check in workflow.check_indices() {
            needed = needed.saturating_add(workflow.job_limit(check).0).saturating_add(limits.logs.0);
        }
        if pays.0 <= limits.grace.0 {
            let message = format!(
                "{budget} covers {pays} of {nodes} nodes at {price} an hour; a run is stopped {} (limits.grace) before \
                 that, so no run could start; raise the budget, or lower limits.grace",
                limits.grace
            );
            self.error("cost.budget", message);
        } else if let Some(soak) = workflow.soak.as_ref().filter(|soak| pays < soak.duration) {
            let message = format!(
                "{budget} covers {pays} of {nodes} nodes at {price} an hour, less than the soak, {}; raise the budget, or shorten the soak",
                soak.duration
            );
            self.error("cost.budget", message);
        } else if pays.0 < needed {
            let message = format!(
                "{budget} covers {pays} of {nodes} nodes at {price} an hour; the limits allow {}, and a run that \
                 takes longer than the budget is stopped",
                Span(needed)
            );
            self.warning("cost.budget", message);
        }
    }

    /// Deploy and destroy steps must have equal values.
    fn check_substitutions(&mut self, deployed: &Deployed) {
        let field = "cluster.rent.deployed";
        for (name, deploy) in substitutions(&deployed.deploy).chain(substitutions(&deployed.destroy)) {
            let (Some(one), Some(other)) =
                (effective(&deployed.deploy, name), effective(&deployed.destroy, name))
            else {
                continue;
            };
            // A name in both lists is compared twice: report it only the first time.
            if one != other && (deploy == one || !deployed.deploy.substitutions.contains_key(name)) {
                let message = format!("`{one}` to deploy and `{other}` to destroy; write the same in both");
                self.error(&format!("{field}.destroy.substitutions.{name}"), message);
            }
        }
    }

    /// Quantities stated both in the cluster's settings and in the substitutions of its steps.
    fn stated_twice(&mut self, deployed: &Deployed) {
        let kind = deployed.system.kind();
        let Some(form) = clusters::kind(kind).map(|kind| kind.form()) else { return };
        for Substitution { name, setting, value: here } in (form.substitutions)(deployed.system.settings()) {
            let there = effective(&deployed.deploy, name).filter(|there| !["", "0"].contains(there));
            if let Some((there, here)) = there.zip(here).filter(|(there, here)| there != here) {
                let message = format!(
                    "{here}, but the steps that deploy get {name} `{there}`; write the same in both \
                     (cluster.rent.deployed.deploy.substitutions.{name})"
                );
                self.error(&format!("cluster.rent.deployed.{kind}.{setting}"), message);
            }
        }
    }
}

/// Substitutions that the workflow sets for a build.
fn substitutions(build: &BuildSpec) -> impl Iterator<Item = (&str, &str)> {
    build.substitutions.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Effective value in a build's steps: the workflow's, or the default of a config that declares it.
fn effective<'a>(build: &'a BuildSpec, name: &str) -> Option<&'a str> {
    let declared = build.config["substitutions"].get(name)?;
    build.substitutions.get(name).map(String::as_str).or_else(|| declared.as_str())
}

/// Field of the cluster's settings, and the placement of its ranks. `None` for processes, whose number depends on the host's
/// GPUs.
fn layout(system: &System) -> Option<(String, ClusterLayout)> {
    let deployed = Deployed::of(system).map(|deployed| deployed.system);
    let (field, system) = match &deployed {
        Some(system) => ("cluster.rent.deployed", system),
        None => ("cluster.existing.system", system),
    };
    Some((format!("{field}.{}", system.kind()), clusters::layout(system)?))
}

fn ranks(system: &System) -> Option<u32> {
    layout(system).map(|(_, layout)| layout.nodes.saturating_mul(layout.ranks_per_node))
}

/// Sizes that nccl-tests prints, bytes: if every rank has its own part, the part is rounded down to 16 bytes.
fn measured(workload: &Workload, ranks: Option<u32>) -> Vec<u64> {
    let whole = matches!(
        workload.collective,
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::Sendrecv
    );
    let unit = if whole { 1 } else { 16 * u64::from(ranks.unwrap_or(1).max(1)) };
    workload.sizes().into_iter().map(|size| size / unit * unit).collect()
}

fn not_measured(bytes: u64, sizes: &[u64]) -> String {
    let exact = |bytes: u64| match size(bytes) {
        rounded if rounded.contains('.') => format!("{bytes} bytes"),
        whole => whole,
    };
    let below = sizes.iter().rev().find(|size| **size < bytes).map(|bytes| exact(*bytes));
    let above = sizes.iter().find(|size| **size > bytes).map(|bytes| exact(*bytes));
    let near: Vec<_> = below.into_iter().chain(above).collect();
    let near = if near.is_empty() { "nothing".to_owned() } else { near.join(" and ") };
    format!("{} is never measured; the nearest measured sizes are {near}", exact(bytes))
}

/// The first absolute bound of a criterion without a unit, if the unit is known only from the output: `ib_write_bw` prints MiB/s or Gb/s.
fn without_unit(read: &OutputFormat, criterion: &MetricCriterion) -> Option<&'static str> {
    let is_printed = match read {
        // The unit of a key follows from its name.
        OutputFormat::Format(format) if format == "key-value" => false,
        OutputFormat::Format(format) => {
            let mut known = measure::format(format)?.metrics.iter();
            known.any(|known| known.unit == "printed" && known.describes(&criterion.metric))
        }
        OutputFormat::Declared(rules) => rules["unit"].is_null(),
    };
    let bounds = [
        ("floor", criterion.floor.is_some()),
        ("ceiling", criterion.ceiling.is_some()),
        ("equals", criterion.equals.is_some()),
        ("reference", criterion.reference.is_some()),
    ];
    let stated = bounds.into_iter().find(|(_, stated)| *stated).map(|(rule, _)| rule);
    stated.filter(|_| is_printed && criterion.unit.is_none())
}

/// Problem of a criterion's direction, which is missing or contradicts that of the format; `None` without a problem.
fn direction(read: &OutputFormat, criterion: &MetricCriterion) -> Option<String> {
    let stated = match read {
        OutputFormat::Format(format) => {
            let known =
                measure::format(format)?.metrics.iter().find(|known| known.describes(&criterion.metric))?;
            known.better
        }
        OutputFormat::Declared(rules) => serde_json::from_value(rules["better"].clone()).ok()?,
    };
    match (stated, criterion.better) {
        (Better::None, None) => criterion.directed().map(|rule| {
            format!(
                "is missing: `{}` has no direction of improvement, so `{rule}` could not be judged; write `higher` or `lower`",
                criterion.metric
            )
        }),
        (Better::None, _) | (_, None) => None,
        (stated, Some(better)) => (stated != better).then(|| {
            format!("contradicts the format, in which `{}` has the direction `{}`; remove it", criterion.metric,
                stated.as_str()
            )
        }),
    }
}
