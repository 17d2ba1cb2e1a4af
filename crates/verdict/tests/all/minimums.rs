//! The table in `docs/MINIMUMS.md` equals the list of the library.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]

use std::{env, fmt::Write as _, fs, path::Path};

use verdict::minimum::{MINIMUMS, MINIMUMS_DATE};

const INTRODUCTION: &str = "\
# Minimum versions

`burnin audit` compares the versions in the [hardware evidence](VERDICT.md#hardware-evidence) of the nodes, and the version of NCCL that a
log states, with this list. A version in an affected range is below the minimum, and the exit code is 1; the range includes its first version
and not its last. If a source does not state the first affected version, the range begins with the branch of the fixed version. All entries
for a version are printed. A text that is not a version is printed as such, and the exit code is 2 unless it is 1 for another
reason. The evidence has no version of a component that the node does not have, or that the job cannot read.

- *NVIDIA driver*: the kernel module of the GPUs.
- *NCCL*: the `libnccl.so.2` that a program on the node loads, and the version that nccl-tests print. The version is that of the file's name, or
  of the text in the library.
- *NVIDIA Container Toolkit*: `nvidia-ctk` on the host of the job.
- *mlx5_core of OFED*: the version of the kernel module. The module that is part of the kernel has no version, and is not compared.
- *ConnectX and BlueField firmware*: without the first number, which identifies the device: 28.43.8002 is 43.8002 of a ConnectX-7. Other devices
  are not compared.

A test compares this page with the library (`UPDATE_FIXTURES=1 cargo test -p verdict minimums::` rewrites it).
";

#[test]
fn the_page_lists_the_library() {
    let mut page = format!("{INTRODUCTION}\nThe sources were read in {MINIMUMS_DATE}.\n\n");
    page.push_str("| component | affected | minimum | reason | date | source |\n|---|---|---|---|---|---|\n");
    for it in MINIMUMS {
        let (first, end) = it.affected;
        _ = writeln!(
            page,
            "| {} | {first} to {end} | {} | {} | {} | <{}> |",
            it.component.name(),
            it.minimum,
            it.reason,
            it.date,
            it.source
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/MINIMUMS.md");
    if env::var_os("UPDATE_FIXTURES").is_some() {
        fs::write(&path, &page).expect("the page is writable");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/MINIMUMS.md differs from the library; UPDATE_FIXTURES=1 writes it");
}
