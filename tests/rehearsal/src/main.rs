//! Rehearses a deployment: the services of the Terraform plan run as processes, and each of their requests is checked against the
//! plan's grants. Then each grant is removed in turn, and the rehearsal must fail.

mod condition;
mod declared;
mod grants;
mod iam;
mod methods;
mod plan;
mod proxy;
mod receiver;
mod scenario;
mod world;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::Parser;

use crate::{plan::Plan, world::World};

/// Rehearses a deployment without a cloud.
#[derive(Parser)]
struct Arguments {
    /// Folder of the services' programs.
    #[arg(long)]
    programs: PathBuf,
    /// The plan, from tests/terraform/plan.py.
    #[arg(long)]
    plan: PathBuf,
    /// Folder for logs; it must be empty.
    folder: PathBuf,
}

fn main() -> ExitCode {
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
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

async fn rehearse(arguments: &Arguments) -> Result<(), String> {
    let plan = Plan::read(&arguments.plan)?;
    let folder = std::path::absolute(&arguments.folder).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut world = World::new(plan, &arguments.programs, &folder.join("whole")).await?;
    let played = scenario::play(&mut world, false).await;
    let notes = played.map_err(|why| {
        world.dump();
        format!("{why}\nlogs and objects are in {}", world.folder().display())
    })?;
    println!("rehearsal: {} in {:.1} s", notes.join(", "), began.elapsed().as_secs_f64());
    let (uses, sole) = world.iam.uses();
    for grant in &world.plan.grants.all {
        if !uses.contains_key(&grant.address) {
            println!("unused: {}", grant.address);
        } else if !sole.contains(&grant.address) {
            println!("redundant: {}", grant.address);
        }
    }
    Ok(())
}
