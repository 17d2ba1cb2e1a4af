//! Uploading and reading 200 MiB takes less than 96 MiB of memory.

use std::{process::Command, time::Duration};

use gcp::storage::CloudStorage;
use ledger::{Creation, Store};
use tokio::io::AsyncReadExt;

use super::{BUCKET, standin};

const SIZE: u64 = 200 << 20;
/// Set for the process that uploads: its memory is measured, so the server must be in another process.
const ADDRESS: &str = "BURNIN_TEST_STORAGE";

#[tokio::test(flavor = "multi_thread")]
async fn transfers_of_200_mebibytes_use_little_memory() {
    let standin = standin(Duration::from_secs(1)).await;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "large::an_upload_is_read_back", "--ignored", "--nocapture"]);
    let child = child.env(ADDRESS, standin.url()).output();
    let output = tokio::task::block_in_place(|| child).unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let peak = stdout.lines().find_map(|line| line.split_once("peak KiB: ")?.1.parse::<u64>().ok()).unwrap();
    println!("peak memory: {} MiB", peak >> 10);
    assert!(peak < 96 << 10, "{peak} KiB");
    assert_eq!(standin.object(BUCKET, "large").unwrap().body.len() as u64, SIZE);
}

#[tokio::test]
#[ignore = "started by transfers_of_200_mebibytes_use_little_memory"]
async fn an_upload_is_read_back() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let store = CloudStorage::new(BUCKET, Some(address.parse().unwrap()));
    let body = Box::new(tokio::io::repeat(0x5a).take(SIZE));
    let (creation, digest) = store.create_from("large", body).await.unwrap();
    assert_eq!((creation, digest.size_bytes), (Creation::Created, SIZE));
    let mut reader = store.open("large").await.unwrap().unwrap();
    assert_eq!(tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.unwrap(), SIZE);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("peak KiB: {}", peak.trim().trim_end_matches(" kB"));
}
