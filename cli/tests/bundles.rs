//! A run as one signed file: whatever is changed in it is found.

mod support;

use std::{fs, path::Path, process::Command};

use support::Lab;

fn openssl(arguments: &[&str], folder: &Path) {
    let done = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_run_is_exported_and_holds_until_a_byte_of_it_is_changed() {
    let lab = Lab::new("", "");
    assert_eq!(lab.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let (run, folder) = (lab.run(), lab.folder.path());
    for name in ["key", "other"] {
        openssl(&["genpkey", "-algorithm", "ed25519", "-out", name], folder);
        openssl(&["pkey", "-in", name, "-pubout", "-out", &format!("{name}.pub")], folder);
    }
    let exported = lab.burnin(&["export", &run, "--key", "key", "--save", "run.tar"]);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    let again = lab.burnin(&["export", &run, "--key", "key", "--save", "again.tar"]);
    assert_eq!(again.status.code(), Some(0));
    let path = |name: &str| folder.join(name);
    assert!(fs::read(path("run.tar")).unwrap() == fs::read(path("again.tar")).unwrap(), "the same bytes");

    let verify = |arguments: &[&str]| {
        let output = lab.burnin(&[&["verify"], arguments].concat());
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    };
    let (code, said) = verify(&["run.tar", "--key", "key.pub"]);
    assert!(code == Some(0) && said.contains("verdict pass") && said.contains("that you trust"), "{said}");
    let (code, said) = verify(&["run.tar"]);
    assert!(code == Some(0) && said.contains("anybody can sign"), "{said}");
    let (code, said) = verify(&["run.tar", "--key", "other.pub"]);
    assert!(code == Some(1) && said.contains("another key"), "{said}");

    // A byte anywhere: in what is signed, the signature, the ledger, a log, the page.
    let good = fs::read(path("run.tar")).unwrap();
    let find = |text: &str| good.windows(text.len()).position(|at| at == text.as_bytes()).unwrap();
    let places = [
        find("\"verdict\": \"pass\"") + 12,
        find("bundle.sig") + 512,
        good.len() - 3000,
        find("# Collective test concluded"),
        find("PASS"),
        find("verdict.reached.v1"),
    ];
    for place in places {
        let mut changed = good.clone();
        changed[place] ^= 1;
        fs::write(path("changed.tar"), &changed).unwrap();
        let (code, said) = verify(&["changed.tar", "--key", "key.pub"]);
        assert!(matches!(code, Some(1 | 64)), "byte {place}: {said}");
    }
    fs::write(path("short.tar"), &good[..good.len() / 2]).unwrap();
    let (code, said) = verify(&["short.tar"]);
    assert!(matches!(code, Some(1 | 64)), "{said}");
    fs::write(path("none.tar"), "no archive").unwrap();
    assert_eq!(verify(&["none.tar"]).0, Some(64));
    assert_eq!(verify(&["nowhere.tar"]).0, Some(64));
    assert_eq!(verify(&["run.tar", "--key", "w.yaml"]).0, Some(64));
    assert_eq!(lab.burnin(&["export", "no-such-run", "--key", "key"]).status.code(), Some(64));
    assert_eq!(lab.burnin(&["export", &run, "--key", "key.pub"]).status.code(), Some(64));
}
