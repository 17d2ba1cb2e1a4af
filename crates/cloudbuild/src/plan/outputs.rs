use crate::BuildProblem;
use crate::config::{ArtifactObjects, BuildConfig};

use super::template::Templates;

/// The output files and images of a build.
pub(super) fn check(
    config: &BuildConfig,
    templates: &mut Templates,
    problems: &mut Vec<BuildProblem>,
) -> (Option<ArtifactObjects>, Vec<String>) {
    for (index, tag) in config.tags.iter().enumerate() {
        templates.expand(&format!("tags[{index}]"), tag, problems);
    }
    if let Some(bucket) = &config.logs_bucket {
        templates.expand("logsBucket", bucket, problems);
    }
    let artifacts = config.artifacts.clone().unwrap_or_default();
    let mut images: Vec<String> = config
        .images
        .iter()
        .enumerate()
        .map(|(index, image)| templates.expand(&format!("images[{index}]"), image, problems))
        .collect();
    for (index, image) in artifacts.images.iter().enumerate() {
        let image = templates.expand(&format!("artifacts.images[{index}]"), image, problems);
        if !images.contains(&image) {
            images.push(image);
        }
    }
    let packages = [
        ("mavenArtifacts", &artifacts.maven_artifacts),
        ("pythonPackages", &artifacts.python_packages),
        ("npmPackages", &artifacts.npm_packages),
        ("goModules", &artifacts.go_modules),
    ];
    for (name, _) in packages.iter().filter(|(_, list)| !list.is_empty()) {
        problems.push(BuildProblem::new(
            format!("artifacts.{name}"),
            "the local runner cannot upload packages; use `artifacts.objects`",
        ));
    }
    (artifacts.objects.map(|objects| check_objects(objects, templates, problems)), images)
}

fn check_objects(
    objects: ArtifactObjects,
    templates: &mut Templates,
    problems: &mut Vec<BuildProblem>,
) -> ArtifactObjects {
    let at = "artifacts.objects";
    let location = templates.expand(&format!("{at}.location"), &objects.location, problems);
    if !location.starts_with("gs://") {
        problems.push(BuildProblem::new(
            format!("{at}.location"),
            format!("expected a bucket as gs://bucket/folder/, found {location:?}"),
        ));
    }
    if objects.paths.is_empty() {
        problems.push(BuildProblem::new(format!("{at}.paths"), "is empty; add at least one path"));
    }
    let mut paths: Vec<String> = Vec::new();
    for (index, template) in objects.paths.iter().enumerate() {
        let here = format!("{at}.paths[{index}]");
        let path = templates.expand(&here, template, problems);
        if path.contains(char::is_whitespace) {
            problems.push(BuildProblem::new(
                &here,
                format!("expected a path without blanks, which Cloud Build rejects, found {path:?}"),
            ));
        } else if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            problems.push(BuildProblem::new(
                &here,
                format!("{path:?} is outside the workspace; use a path inside it"),
            ));
        } else if let Err(error) = glob::Pattern::new(&path) {
            problems.push(BuildProblem::new(&here, format!("{path:?} is not a glob: {error}")));
        } else if paths.contains(&path) {
            problems.push(BuildProblem::new(&here, format!("{path:?} is listed twice; remove one")));
        }
        paths.push(path);
    }
    ArtifactObjects { location, paths }
}
