//! A bare repository and a clone in a temporary folder, for pushes and refs.

use std::{fs, path::Path, process::Command};

/// Runs git in a folder, without this machine's configuration.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A bare repository and a clone; without a hook a push sends no webhook.
pub struct GitServer {
    pub folder: tempfile::TempDir,
}

impl GitServer {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "forge.git"]);
        git(folder.path(), &["clone", "--quiet", "forge.git", "work"]);
        git(&folder.path().join("work"), &["checkout", "--quiet", "-B", "main"]);
        Self { folder }
    }

    pub fn url(&self) -> String {
        self.folder.path().join("forge.git").display().to_string()
    }

    pub fn commit(&self, file: &str, text: &str) {
        let path = self.folder.path().join("work").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.work(&["add", "."]);
        self.work(&["commit", "--quiet", "-m", text]);
    }

    pub fn work(&self, arguments: &[&str]) -> String {
        git(&self.folder.path().join("work"), arguments)
    }
}
