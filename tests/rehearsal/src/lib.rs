//! Rehearses a deployment: the services of the Terraform plan run as processes, and each of their requests is checked against the
//! plan's grants. Then the grants are removed one at a time, and each time the rehearsal must fail.

mod boundaries;
mod build_rights;
mod cloud_run;
mod condition;
mod declared;
mod deployment;
mod examples;
mod faults;
mod fixtures;
mod grants;
mod iam;
mod load;
mod members;
mod methods;
mod outcomes;
mod plan;
mod proxy;
mod report;
mod requests;
mod rules;
mod scenario;
mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use bigquery_standin::{Fault, FaultTarget};
use clap::{Parser, ValueEnum};
use futures::{StreamExt, stream};

use crate::{
    condition::{Attribute, GrantCondition},
    deployment::{Rehearsal, RehearsalSettings},
    grants::Grant,
    iam::Uses,
    plan::TerraformPlan,
};

/// Rehearses a deployment without a cloud.
#[derive(Clone, Parser)]
struct Arguments {
    /// Folder of the services' programs.
    #[arg(long)]
    programs: PathBuf,
    /// The plan, from tests/terraform/plan.py.
    #[arg(long)]
    plan: PathBuf,
    /// Descriptions of buckets and accounts, infra/rights.json.
    #[arg(long)]
    rights: PathBuf,
    /// The page `docs/RIGHTS.md`, which is compared with the rehearsal.
    #[arg(long)]
    page: PathBuf,
    /// Write the page instead of comparing it.
    #[arg(long)]
    write: bool,
    /// Number of concurrent rehearsals, each without one grant.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// Removes only grants whose address contains this text; empty: all.
    #[arg(long, default_value = "")]
    only: String,
    /// Rehearses only this part.
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Random seed for the killed processes and the times.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder for logs; it must be empty.
    folder: PathBuf,
}

/// Parts of the rehearsal gate that can run separately.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Runs each kind once with all grants, and once without each single grant.
    Rights,
    /// Runs whose services are killed.
    Faults,
    /// A hundred concurrent triggers.
    Load,
}

/// Exit code of a gate with a skipped part, which cannot run on this host. With `BURNIN_SKIPPED=fail` .ci/test.sh then fails.
const SKIPPED: u8 = 77;

/// Result of the selected parts.
#[derive(Default)]
struct Outcome {
    wrong: Vec<String>,
    /// Parts that cannot run on this host, each with the reason.
    skipped: Vec<&'static str>,
}

impl Outcome {
    fn code(&self) -> u8 {
        match (self.wrong.is_empty(), self.skipped.is_empty()) {
            (false, _) => 1,
            (true, false) => SKIPPED,
            (true, true) => 0,
        }
    }
}

pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(rehearse(&arguments)) {
        Ok(outcome) => {
            outcome.wrong.iter().for_each(|what| println!("{what}"));
            outcome.skipped.iter().for_each(|what| println!("skipped: {what}"));
            ExitCode::from(outcome.code())
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

async fn rehearse(arguments: &Arguments) -> Result<Outcome, String> {
    let plan = TerraformPlan::read(&arguments.plan)?;
    let folder = std::path::absolute(&arguments.folder).map_err(|error| error.to_string())?;
    let programs = std::path::absolute(&arguments.programs).map_err(|error| error.to_string())?;
    let arguments = &Arguments { programs, ..arguments.clone() };
    let wanted = |part| arguments.part.is_none_or(|only| only == part);
    let mut outcome = Outcome::default();
    if wanted(Part::Faults) {
        outcome.wrong.extend(faults(arguments, &plan, &folder.join("faults")).await.err());
    }
    if wanted(Part::Load) {
        outcome.wrong.extend(load(arguments, &plan, &folder.join("load")).await.err());
    }
    if wanted(Part::Rights) && outcome.wrong.is_empty() {
        outcome = rights(arguments, &plan, &folder).await?;
    }
    Ok(outcome)
}

/// Kills services during runs, with all grants.
async fn faults(arguments: &Arguments, plan: &TerraformPlan, folder: &Path) -> Result<(), String> {
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let settings = RehearsalSettings { deliveries: None, unreliable: true, ..RehearsalSettings::default() };
    let mut rehearsal = Rehearsal::new(plan.clone(), &arguments.programs, folder, settings).await?;
    let note = faults::rehearse(&mut rehearsal, seed).await;
    println!("faults: {}", finished(note, &rehearsal, &format!("seed {seed}: "))?);
    Ok(())
}

/// Starts a hundred concurrent runs, with all grants.
async fn load(arguments: &Arguments, plan: &TerraformPlan, folder: &Path) -> Result<(), String> {
    // Commands wait for the processors of this host: shorter intervals would only add load.
    let settings = RehearsalSettings {
        deliveries: None,
        unreliable: true,
        resend: "10s",
        poll: "1s",
        tasks: Duration::from_secs(2),
        ..RehearsalSettings::default()
    };
    let mut rehearsal = Rehearsal::new(plan.clone(), &arguments.programs, folder, settings).await?;
    let note = load::rehearse(&mut rehearsal).await;
    println!("load: {}", finished(note, &rehearsal, "load: ")?);
    Ok(())
}

/// Writes the objects of a failed rehearsal into a folder, and adds the folder to the error.
fn finished<T>(outcome: Result<T, String>, rehearsal: &Rehearsal, context: &str) -> Result<T, String> {
    outcome.map_err(|why| {
        rehearsal.dump();
        format!("{context}{why}\nlogs and objects are in {}", rehearsal.folder().display())
    })
}

/// Rehearses with all grants, and without each grant, one at a time; compares the page with the result.
async fn rights(arguments: &Arguments, plan: &TerraformPlan, folder: &Path) -> Result<Outcome, String> {
    let mut outcome = Outcome { wrong: boundaries::broken(plan)?, ..Outcome::default() };
    if !outcome.wrong.is_empty() {
        return Ok(outcome);
    }
    // The services must pass with either behavior that Google's pages leave open.
    let (rehearsal, _) = whole(plan, &arguments.programs, &folder.join("strict"), true).await?;
    let (strict, _) = rehearsal.iam.uses();
    drop(rehearsal);
    let (rehearsal, skipped) = whole(plan, &arguments.programs, &folder.join("whole"), false).await?;
    let (mut uses, sole) = rehearsal.iam.uses();
    drop(rehearsal);
    outcome.skipped = skipped;
    for (address, used) in strict {
        uses.entry(address).or_default().extend(used);
    }

    let wrong = &mut outcome.wrong;
    wrong.extend(duplicate_grants(&plan.grants.all));
    wrong.extend(unneeded(&plan.grants.all, &uses, &sole));
    if !wrong.is_empty() {
        return Ok(outcome);
    }
    let rows = report::rows(&plan.grants.all, &uses);
    let known = fs::read_to_string(&arguments.page).unwrap_or_default();
    let page = report::page(&report::Described::read(&arguments.rights)?, &report::with_known(rows, &known));
    if page != known {
        if arguments.write {
            fs::write(&arguments.page, page)
                .map_err(|error| format!("{}: {error}", arguments.page.display()))?;
        } else {
            wrong.push(format!(
                "{} differs from the rehearsal; run .ci/rehearsal.sh --write",
                arguments.page.display()
            ));
        }
    }

    wrong.extend(undetected_mistakes(plan, &arguments.programs, &folder.join("planted")).await);
    let started = Instant::now();
    let removed = plan.grants.all.iter().filter(|grant| grant.address.contains(&arguments.only)).enumerate();
    let removed: Vec<_> = removed.collect();
    let count = removed.len();
    if count == 0 {
        return Err(format!("--only {}: no grant has this text in its address", arguments.only));
    }
    let ends = stream::iter(removed).map(|(number, grant)| {
        let folder = folder.join(format!("without-{number}"));
        without(plan, grant, &arguments.programs, folder)
    });
    let ends: Vec<_> = ends.buffer_unordered(arguments.at_once.max(1)).collect().await;
    let kept: Vec<_> = ends.into_iter().filter_map(Result::err).collect();
    println!(
        "rehearsal: grants removed, one at a time: {count}; rehearsals that failed for that reason: {}; {:.0} s",
        count - kept.len(),
        started.elapsed().as_secs_f64()
    );
    wrong.extend(kept);
    Ok(outcome)
}

/// Rehearses with all grants. Also returns the skipped examples.
async fn whole(
    plan: &TerraformPlan,
    programs: &Path,
    folder: &Path,
    strict: bool,
) -> Result<(Rehearsal, Vec<&'static str>), String> {
    let started = Instant::now();
    let settings = RehearsalSettings { strict, ..RehearsalSettings::default() };
    let mut rehearsal = Rehearsal::new(plan.clone(), programs, folder, settings).await?;
    // Simulates a permission to read the sources that is not effective yet at the first load. It is not documented whether the request
    // or its job fails.
    if strict {
        rehearsal.bigquery.fault(FaultTarget::Job, Fault::Fails("accessDenied"));
    } else {
        rehearsal.bigquery.fault(FaultTarget::Insert, Fault::Refused(403));
    }
    if !strict {
        examples::prepare(&rehearsal)?;
    }
    let notes = scenario::rehearse(&mut rehearsal, false).await;
    let (mut notes, mut skipped) = (finished(notes, &rehearsal, "")?, Vec::new());
    if !strict {
        let examples = examples::rehearse(&rehearsal, programs).await;
        let examples = finished(examples, &rehearsal, "docs/TRIGGERS.md: ")?;
        notes.push(examples.to_string());
        skipped = examples.skipped;
    }
    let tokens = finished(scenario::tokens(&rehearsal).await, &rehearsal, "")?;
    println!(
        "rehearsal: {}, {tokens} wrong tokens refused in {:.1} s",
        notes.join(", "),
        started.elapsed().as_secs_f64()
    );
    Ok((rehearsal, skipped))
}

/// Grants without which every request of a rehearsal would have been allowed.
fn unneeded(grants: &[Grant], uses: &Uses, sole: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for Grant { address, .. } in grants {
        if !uses.contains_key(address) {
            wrong.push(format!("{address}: no request needs this grant; remove it from infra/"));
        } else if !sole.contains(address) {
            wrong.push(format!("{address}: other grants allow the same requests; remove it from infra/"));
        }
    }
    wrong
}

/// Reintroduces known mistakes, each of which a rehearsal must find.
async fn undetected_mistakes(plan: &TerraformPlan, programs: &Path, folder: &Path) -> Vec<String> {
    // A grant with a prefix that does not apply to lists, because lists are checked on the bucket.
    let mut lists = plan.clone();
    for grant in &mut lists.grants.all {
        if let Some(GrantCondition::Any(parts)) = &mut grant.condition {
            parts.retain(|part| !matches!(part, GrantCondition::StartsWith(Attribute::ListPrefix, _)));
        }
    }
    // Tokens with the endpoint instead of the service as audience.
    let mut pushes = plan.clone();
    for (_, _, audience) in pushes.subscriptions.iter_mut().filter_map(|of| of.push.as_mut()) {
        audience.push('/');
    }
    let mut tasks = plan.clone();
    for task in &mut tasks.tasks {
        task.audience.clone_from(&task.uri);
    }
    let finds = async |name: &str, plan: TerraformPlan, expected: &str| {
        let mut rehearsal = Rehearsal::new(plan, programs, &folder.join(name), RehearsalSettings::default())
            .await
            .map_err(|why| format!("{name}: {why}"))?;
        let outcome = scenario::rehearse(&mut rehearsal, true).await;
        match rehearsal.iam.denials().first() {
            Some(denial) if denial.permission.contains(expected) => Ok(()),
            _ => Err(format!("the mistake `{name}` is not found: {outcome:?}")),
        }
    };
    let (lists, pushes, tasks) = tokio::join!(
        finds("lists", lists, "storage.objects.list"),
        finds("audience-of-pushes", pushes, "the audience is"),
        finds("audience-of-tasks", tasks, "the audience is")
    );
    [lists, pushes, tasks].into_iter().filter_map(Result::err).collect()
}

/// Errors about grants with equal content: the removal of one grant removes the other one as well.
fn duplicate_grants(grants: &[Grant]) -> Vec<String> {
    let mut first: BTreeMap<_, &str> = BTreeMap::new();
    let mut wrong = Vec::new();
    for Grant { address, on, role, member, condition } in grants {
        let key = (on, role, member, format!("{condition:?}"));
        if let Some(other) = first.insert(key, address) {
            wrong.push(format!("{address}: the same grant as {other}; remove one from infra/"));
        }
    }
    wrong
}

/// Rehearses without a grant. The rehearsal must fail at a request that needs this grant; otherwise returns an error.
async fn without(
    plan: &TerraformPlan,
    grant: &Grant,
    programs: &Path,
    folder: PathBuf,
) -> Result<(), String> {
    let reduced = TerraformPlan { grants: plan.grants.without(&grant.address), ..plan.clone() };
    let mut rehearsal = Rehearsal::new(reduced, programs, &folder, RehearsalSettings::default()).await?;
    let why = match scenario::rehearse(&mut rehearsal, true).await {
        Ok(_) => return Err(format!("{}: the rehearsal passed without this grant", grant.address)),
        Err(why) => why,
    };
    let denials = rehearsal.iam.denials();
    for denial in &denials {
        let allowing = plan.grants.allowing(&denial.member, &denial.permission, &denial.resource);
        if allowing.is_ok_and(|found| found.iter().any(|other| other.address == grant.address)) {
            drop(rehearsal);
            drop(fs::remove_dir_all(&folder));
            return Ok(());
        }
    }
    rehearsal.dump();
    Err(format!(
        "{}: without this grant the rehearsal failed for another reason: {why}; see {}",
        grant.address,
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(address: &str, member: &str) -> Grant {
        Grant {
            address: address.to_owned(),
            on: "service s".to_owned(),
            role: "roles/run.invoker".to_owned(),
            member: member.to_owned(),
            condition: None,
        }
    }

    #[test]
    fn a_grant_that_exists_twice_is_reported_with_both_addresses() {
        assert_eq!(duplicate_grants(&[grant("a", "x"), grant("b", "y")]), Vec::<String>::new());
        let wrong = duplicate_grants(&[grant("a", "x"), grant("b", "x")]);
        assert!(wrong.len() == 1 && wrong[0].starts_with("b: the same grant as a"), "{wrong:?}");
    }

    #[test]
    fn a_skipped_example_is_not_a_success() {
        let of = |wrong: &[&str], skipped: &[&'static str]| {
            let wrong = wrong.iter().map(|what| (*what).to_owned()).collect();
            Outcome { wrong, skipped: skipped.to_vec() }.code()
        };
        assert_eq!((of(&[], &[]), of(&[], &["go"]), of(&["a"], &["go"])), (0, SKIPPED, 1));
    }

    #[test]
    fn unused_and_redundant_grants_are_reported() {
        let grants = [grant("needed", "x"), grant("redundant", "y"), grant("unused", "z")];
        let of = |address: &str| (address.to_owned(), BTreeSet::from([("p".to_owned(), "r".to_owned())]));
        let wrong = unneeded(
            &grants,
            &Uses::from([of("needed"), of("redundant")]),
            &BTreeSet::from(["needed".to_owned()]),
        );
        assert!(
            wrong.len() == 2
                && wrong[0].starts_with("redundant: other grants")
                && wrong[1].starts_with("unused: no request"),
            "{wrong:?}"
        );
    }
}
