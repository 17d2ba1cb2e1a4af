//! The table of metrics in `docs/METRICS.md` equals the registry.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]

use std::{env, fmt::Write as _, fs, path::Path};

use measure::{Declaration, FORMATS};
use model::metric::Scope;
use serde_json::Value;

const INTRODUCTION: &str = "\
# Metrics

`burnin parse` and the checks of a run read the output of benchmarks into metrics and findings. This page lists them for each
format; a test compares it with the registry of the crate `measure` (`UPDATE_FIXTURES=1 cargo test -p measure docs::`
regenerates it).

- A value is returned exactly as printed, with the printed step as `resolution`, or not at all. A metric without a value has the
  program's reason in `unmeasurable`.
- *Better* `none` is evidence: it is judged only by `floor`, `ceiling` and `equals` of the criteria, or if they state `better`; `exact` needs an expected value.
- A part of a name in angle brackets is a placeholder for text of the program, such as the name of a test. Unit `printed` is the unit that
  the program prints: synonyms are normalized (`Gflop/s` is `GFLOP/s`), and any other unit is kept, which makes a judgement
  inconclusive. The same applies to a program that prints another unit than the listed one.
- A metric or finding of a GPU has its serial number and bus id if the log lists the GPU with them.
- A log is complete only with the end mark of its format.
";

const DECLARED: &str = "
## declared

The output of any other program is read by a declaration: `read:` of a check, or the file of `burnin parse --read FILE LOG`. Exactly one
of `row`, `table` and `json` finds the values; patterns are regular expressions and match anywhere in a line. Groups and columns named `gpu`, `node`,
`rank`, `link` and `peer` are the subject of a value, `unit` is its unit, and all others are labels.

```yaml
begin: '^stream \\d+$'
context: ['^device (?<gpu>[0-9]+)']          # holds for the values after it
row: '^(?<kernel>\\w+) (?<value>\\S+)'       # `kernel` becomes a label
unmeasurable: ['^(?<kernel>\\w+) N/A']
end: ^done$
must_see: ['^result valid$']
fail: [^ERROR]
name: stream.rate
unit: GB/s
better: higher
scope: gpu
```
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for format in FORMATS {
        _ = write!(
            page,
            "\n## {}\n\n{}.\nEnd mark: {}.\nNot read: {}.\n",
            format.name, format.programs, format.end, format.unread
        );
        if !format.metrics.is_empty() {
            page.push_str("\n| metric | unit | better | scope | meaning |\n|---|---|---|---|---|\n");
        }
        for metric in format.metrics {
            let better = metric.better.as_str();
            let scope = match metric.scope {
                Scope::World => "world",
                Scope::Node => "node",
                Scope::Gpu => "gpu",
                Scope::Link => "link",
                Scope::Pair => "pair",
                Scope::Rank => "rank",
            };
            _ = writeln!(
                page,
                "| `{}` | {} | {better} | {scope} | {} |",
                metric.name, metric.unit, metric.meaning
            );
        }
        if !format.findings.is_empty() {
            page.push_str("\n| finding | meaning |\n|---|---|\n");
        }
        for (code, meaning) in format.findings {
            _ = writeln!(page, "| `{code}` | {meaning} |");
        }
    }
    page.push_str(DECLARED);
    page.push_str("\n| field | meaning |\n|---|---|\n");
    let schema = serde_json::to_value(schemars::schema_for!(Declaration)).expect("a schema is JSON");
    fields(&mut page, "", &schema, &schema["$defs"]);
    page
}

/// Lists the fields of an object with their descriptions; fields of an object in `table` or `json` have its name as a
/// prefix, such as `table.header`.
fn fields(page: &mut String, prefix: &str, object: &Value, definitions: &Value) {
    for (name, field) in object["properties"].as_object().into_iter().flatten() {
        let meaning = field["description"].as_str().unwrap_or_default().replace('\n', " ");
        _ = writeln!(page, "| `{prefix}{name}` | {meaning} |");
        let inner = field["anyOf"].as_array().into_iter().flatten().find_map(|one| one["$ref"].as_str());
        if let Some(inner) = inner.and_then(|path| path.strip_prefix("#/$defs/")) {
            fields(page, &format!("{prefix}{name}."), &definitions[inner], definitions);
        }
    }
}

#[test]
fn the_page_lists_all_formats() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
    let page = page();
    if env::var_os("UPDATE_FIXTURES").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/METRICS.md differs from the registry; run with UPDATE_FIXTURES=1");
}

#[test]
fn names_of_metrics_and_findings_have_a_fixed_form() {
    for metric in FORMATS.iter().flat_map(|format| format.metrics) {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._<>".contains(c);
        assert!(metric.name.contains('.') && metric.name.chars().all(valid), "{}", metric.name);
        assert!(
            metric.meaning.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()),
            "{}",
            metric.name
        );
        assert!(!metric.unit.is_empty() && !metric.meaning.ends_with('.'), "{}", metric.name);
    }
    for (code, _) in FORMATS.iter().flat_map(|format| format.findings) {
        let fixed = code.split('<').next().unwrap_or_default();
        assert!(fixed.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'), "{code}");
    }
}

#[test]
fn formats_with_values_of_all_ranks_are_listed_for_the_search_for_bad_nodes() {
    let of_all = measure::FORMATS.iter().filter(|format| {
        let judged = format.metrics.iter().filter(|known| known.better != model::metric::Better::None);
        judged.clone().next().is_some()
            && judged.clone().all(|known| known.scope == model::metric::Scope::World)
    });
    let mut names: Vec<_> = of_all.map(|format| format.name).collect();
    names.sort_unstable();
    assert_eq!(names, model::WORLD_FORMATS);
}
