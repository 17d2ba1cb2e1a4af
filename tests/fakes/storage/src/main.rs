//! `storage-standin`: the stand-in as a program, so that other programs can be run against it.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use clap::Parser;
use storage_standin::{Options, StandIn};

#[derive(Parser)]
#[command(about = "A stand-in for Cloud Storage with injected faults, for tests")]
struct Arguments {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
    /// Initial buckets.
    #[arg(long = "bucket", default_value = "bucket")]
    buckets: Vec<String>,
    /// Minimum interval between two writes of a name, milliseconds; a write within the interval receives 429.
    #[arg(long, default_value_t = 1000)]
    pause_ms: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let Arguments { address, buckets, pause_ms } = Arguments::parse();
    let pause = Duration::from_millis(pause_ms);
    match StandIn::start(Options { address, buckets, pause }).await {
        Ok(standin) => {
            println!("{}", standin.url());
            standin.serve().await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{address}: {error}");
            ExitCode::FAILURE
        }
    }
}
