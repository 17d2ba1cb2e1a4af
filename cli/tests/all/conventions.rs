//! Names of runs, selections of runs, quiet output and colours.

use crate::support::TestProject;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_run_is_selected_by_a_prefix_of_its_id_or_as_latest() {
    let project = TestProject::new("", "");
    let quiet = project.burnin(&["run", "w.yaml", "-q", "--color", "always"]);
    assert!(quiet.status.success(), "{}", text(&quiet.stderr));
    assert_eq!(text(&quiet.stderr), "", "-q hides the progress");
    assert!(text(&quiet.stdout).contains('\u{1b}'), "--color always writes colours to a pipe");
    let run = project.run();
    let whole = project.burnin(&["show", &run]);
    assert!(!text(&whole.stdout).contains('\u{1b}'));
    let never = project.burnin(&["show", &run, "--color", "never"]);
    assert_eq!(never.stdout, whole.stdout);
    for name in ["latest", "lab", &run[..run.len() - 2]] {
        for command in ["show", "logs", "replay", "handover", "explain"] {
            let done = project.burnin(&[command, name]);
            assert!(done.status.success(), "{command} {name}: {}", text(&done.stderr));
        }
        assert_eq!(project.burnin(&["show", name]).stdout, whole.stdout, "{name}");
    }
    let unknown = project.burnin(&["show", "other"]);
    assert_eq!(unknown.status.code(), Some(64));
    assert!(text(&unknown.stderr).contains("no run other"), "{}", text(&unknown.stderr));

    let second = project.burnin(&["run", "w.yaml"]);
    assert!(text(&second.stderr).starts_with("run lab-"), "{}", text(&second.stderr));
    let several = project.burnin(&["show", "lab"]);
    assert_eq!(several.status.code(), Some(64));
    assert!(text(&several.stderr).contains("several run ids") && text(&several.stderr).contains(&run));
    let latest = text(&project.burnin(&["show", "latest"]).stdout);
    assert!(!latest.contains(&run), "`latest` selects the newer of two runs: {latest}");

    let listed = |arguments: &[&str]| {
        let done = project.burnin(&[&["runs"], arguments].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout).lines().count() - 1
    };
    for (arguments, expected) in [
        (&[][..], 2),
        (&["--limit", "1"], 1),
        (&["--workflow", "lab"], 2),
        (&["--workflow", "other"], 0),
        (&["--verdict", "pass"], 2),
        (&["--verdict", "fail"], 0),
        (&["--since", "1h"], 2),
        (&["--since", "1ms"], 0),
    ] {
        assert_eq!(listed(arguments), expected, "{arguments:?}");
    }
}

#[test]
fn quiet_and_verbose_exclude_each_other() {
    let project = TestProject::new("", "");
    assert_eq!(project.burnin(&["runs", "-q", "-v"]).status.code(), Some(64));
    assert_eq!(project.burnin(&["runs", "--color", "sometimes"]).status.code(), Some(64));
}

#[test]
fn every_command_has_a_manual_page() {
    let project = TestProject::new("", "");
    let page = text(&project.burnin(&["man"]).stdout);
    assert!(page.contains(".TH burnin 1") && page.contains("Exit codes"), "{page}");
    assert!(project.burnin(&["man", "--save", "pages"]).status.success());
    for name in ["burnin.1", "burnin-init.1", "burnin-run.1", "burnin-baseline-pin.1"] {
        let page = std::fs::read_to_string(project.path("pages").join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(!project.path("pages/burnin-host.1").exists(), "hidden commands have no page");
}
