//! `burnin export` and `verify`: every change of an exported file is found.

use std::{fs, path::Path, process::Command};

use crate::support::TestProject;

fn openssl(arguments: &[&str], folder: &Path) {
    let done = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn verify_finds_any_changed_byte_of_an_exported_run() {
    let project = TestProject::new("", "");
    assert_eq!(project.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let (run, folder) = (project.run(), project.folder.path());
    for name in ["key", "other"] {
        openssl(&["genpkey", "-algorithm", "ed25519", "-out", name], folder);
        openssl(&["pkey", "-in", name, "-pubout", "-out", &format!("{name}.pub")], folder);
    }
    let exported = project.burnin(&["export", &run, "--key", "key", "--save", "run.tar"]);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    let again = project.burnin(&["export", &run, "--key", "key", "--save", "again.tar"]);
    assert_eq!(again.status.code(), Some(0));
    let path = |name: &str| folder.join(name);
    assert!(
        fs::read(path("run.tar")).unwrap() == fs::read(path("again.tar")).unwrap(),
        "a repeated export has the same bytes"
    );

    let verify = |arguments: &[&str]| {
        let output = project.burnin(&[&["verify"], arguments].concat());
        let message =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), message)
    };
    let (code, message) = verify(&["run.tar", "--key", "key.pub"]);
    assert!(
        code == Some(0) && message.contains("verdict pass") && message.contains("the trusted key"),
        "{message}"
    );
    let (code, message) = verify(&["run.tar"]);
    assert!(code == Some(0) && message.contains("any key can sign"), "{message}");
    let (code, message) = verify(&["run.tar", "--key", "other.pub"]);
    assert!(code == Some(1) && message.contains("not with the trusted key"), "{message}");

    // A device or a pipe is neither replaced nor opened.
    assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let refused = project.burnin(&["export", &run, "--key", "key", "--save", "pipe"]);
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    let (code, message) = verify(&["pipe"]);
    assert!(code == Some(64) && message.contains("not a regular file"), "{message}");

    // Change a byte anywhere: signed content, signature, ledger, log, page.
    let good = fs::read(path("run.tar")).unwrap();
    let find = |text: &str| good.windows(text.len()).position(|at| at == text.as_bytes()).unwrap();
    let places = [
        find("\"verdict\": \"pass\"") + 12,
        find("bundle.sig") + 512,
        good.len() - 3000,
        find("# Collective test concluded"),
        find("## Not measured"),
        find("PASS"),
        find("verdict.reached.v1"),
    ];
    for place in places {
        let mut changed = good.clone();
        changed[place] ^= 1;
        fs::write(path("changed.tar"), &changed).unwrap();
        let (code, message) = verify(&["changed.tar", "--key", "key.pub"]);
        assert!(matches!(code, Some(1 | 64)), "byte {place}: {message}");
    }
    // The headers are signed as well: type, link target, mode, owner and time of each entry, here in a header with a valid checksum. Bytes
    // after the end of the archive are refused.
    let page = find("report.html\0");
    for (at, bytes) in [
        (156, &b"2"[..]),           // a symbolic link
        (157, &b"/etc/passwd"[..]), // its target
        (100, &b"0004755\0"[..]),   // the set-user-ID bit
        (108, &b"0000000\0"[..]),   // owner root
        (136, &b"77777777777"[..]), // a time in the future
    ] {
        let mut changed = good.clone();
        changed[page + at..page + at + bytes.len()].copy_from_slice(bytes);
        changed[page + 148..page + 156].copy_from_slice(b"        ");
        let sum: u32 = changed[page..page + 512].iter().map(|byte| u32::from(*byte)).sum();
        changed[page + 148..page + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        fs::write(path("changed.tar"), &changed).unwrap();
        let (code, message) = verify(&["changed.tar", "--key", "key.pub"]);
        assert!(
            code == Some(1) && message.contains("report.html: it is missing, or its header"),
            "{at}: {message}"
        );
    }
    for after in [&good[..], b"x", &[0; 512]] {
        fs::write(path("changed.tar"), [&good, after].concat()).unwrap();
        let (code, message) = verify(&["changed.tar", "--key", "key.pub"]);
        assert!(code == Some(1) && message.contains("the end of the archive"), "{message}");
    }
    fs::write(path("short.tar"), &good[..good.len() / 2]).unwrap();
    let (code, message) = verify(&["short.tar"]);
    assert!(matches!(code, Some(1 | 64)), "{message}");
    fs::write(path("none.tar"), "no archive").unwrap();
    assert_eq!(verify(&["none.tar"]).0, Some(64));
    assert_eq!(verify(&["nowhere.tar"]).0, Some(64));
    assert_eq!(verify(&["run.tar", "--key", "w.yaml"]).0, Some(64));
    assert_eq!(project.burnin(&["export", "no-such-run", "--key", "key"]).status.code(), Some(64));
    assert_eq!(project.burnin(&["export", &run, "--key", "key.pub"]).status.code(), Some(64));
}

/// Only artefacts with the digests in the manifests and the ledger are signed.
#[test]
fn a_run_with_changed_artefacts_is_not_exported() {
    let project = TestProject::new("", "");
    assert_eq!(project.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let (run, folder) = (project.run(), project.folder.path());
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", "key"], folder);
    let artefacts = project.data().join("artefacts").join(&run);
    let export = |save: &str| {
        let output = project.burnin(&["export", &run, "--key", "key", "--save", save]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (name, change) in [
        ("verdict/1/verdict.json", None),
        ("verdict/1/verdict.json", Some("\"verdict\":\"fail\"")),
        ("image/1/build.log", Some("a changed log")),
        ("image/1/all_reduce_perf", Some("#!/bin/sh")),
        ("logs/1/1/node-1.log", None),
        ("logs/1/manifest.json", Some("{}")),
    ] {
        let path = artefacts.join(name);
        let before = fs::read(&path).unwrap();
        match change {
            None => fs::remove_file(&path).unwrap(),
            Some(verdict) if name.ends_with("verdict.json") => {
                let text =
                    String::from_utf8(before.clone()).unwrap().replace("\"verdict\": \"pass\"", verdict);
                fs::write(&path, text.replace("\"verdict\":\"pass\"", verdict)).unwrap();
            }
            Some(text) => fs::write(&path, text).unwrap(),
        }
        let (code, message) = export("run.tar");
        assert!(matches!(code, Some(1 | 3)) && message.contains(name), "{name}: {code:?} {message}");
        assert!(!folder.join("run.tar").exists() && !message.contains("panicked"));
        fs::write(&path, before).unwrap();
    }
    // A log and its manifest are changed together; the ledger still has the digest of the original manifest.
    let (log, manifest) = (artefacts.join("image/1/build.log"), artefacts.join("image/1/manifest.json"));
    let before = (fs::read(&log).unwrap(), fs::read_to_string(&manifest).unwrap());
    let sum = |path: &Path| {
        let sum = Command::new("sha256sum").arg(path).output().unwrap();
        String::from_utf8(sum.stdout).unwrap()[..64].to_owned()
    };
    let old = sum(&log);
    fs::write(&log, "a changed log").unwrap();
    fs::write(&manifest, before.1.replace(&old, &sum(&log))).unwrap();
    let (code, message) = export("run.tar");
    assert!(
        code == Some(1)
            && message.contains("image/1/manifest.json: its digest differs from the one in the ledger"),
        "{message}"
    );
    fs::write(&log, before.0).unwrap();
    fs::write(&manifest, before.1).unwrap();

    // `export` reports a pipe and does not block on it.
    let pipe = artefacts.join("verdict/1/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (code, message) = export("run.tar");
    assert!(code == Some(3) && message.contains("not a regular file"), "{code:?} {message}");
    fs::remove_file(pipe).unwrap();

    // A file named like a draft and the target of a link stay unchanged.
    fs::write(folder.join("run.draft"), "mine").unwrap();
    fs::write(folder.join("victim"), "mine").unwrap();
    std::os::unix::fs::symlink("victim", folder.join("x.draft")).unwrap();
    for save in ["run.tar", "x.tar"] {
        let (code, message) = export(save);
        assert_eq!((code, message.as_str()), (Some(0), ""));
    }
    for name in ["run.draft", "victim"] {
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "mine");
    }
    // A key readable by other users is used with a warning; an endless file is refused.
    fs::set_permissions(folder.join("key"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let (code, message) = export("run.tar");
    assert!(code == Some(0) && message.contains("chmod 600 key"), "{message}");
    let endless = project.burnin(&["export", &run, "--key", "/dev/zero"]);
    assert_eq!(endless.status.code(), Some(64), "{endless:?}");
}
