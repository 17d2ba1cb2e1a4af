//! Workflow files with problems: the API shows the problems, and their last valid version stays in use.

use std::{fs, time::Duration};

use crate::support::{GatewayBed, workflow};
use serde_json::{Value, json};

/// Writes a file atomically, with a new modification time.
fn write(bed: &GatewayBed, name: &str, text: &str) {
    let path = bed.folder.path().join(name);
    let newer = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
    fs::write(&path, text).unwrap();
    let newer = newer.unwrap_or_else(std::time::SystemTime::now) + Duration::from_secs(1);
    fs::File::options().write(true).open(path).unwrap().set_modified(newer).unwrap();
}

async fn offered(bed: &GatewayBed) -> Value {
    bed.get("/api/v1/workflows").await.1
}

async fn broken(bed: &GatewayBed) -> Value {
    offered(bed).await;
    bed.get("/about").await.1["workflows_broken"].clone()
}

#[tokio::test]
async fn workflows_refused_by_check_are_not_listed_and_are_counted() {
    let bed = GatewayBed::new(&[("w", "")]);
    assert_eq!(broken(&bed).await, 0);
    write(&bed, "bad.yaml", "name: bad\n");
    let zone = workflow("nightly", "on: {schedule: [{cron: 30 2 * * *, zone: Europe/Zurch}]}\n");
    write(&bed, "nightly.yaml", &zone);
    assert_eq!(broken(&bed).await, 2);
    let offered = offered(&bed).await;
    let names: Vec<_> =
        offered["workflows"].as_array().unwrap().iter().map(|it| (&it["name"], &it["startable"])).collect();
    assert_eq!(names, [(&json!("bad"), &json!(false)), (&json!("w"), &json!(true))]);
    assert!(
        offered["workflows"][0]["problems"][0].as_str().unwrap().contains("bad.yaml:1:1: has no effect"),
        "{offered}"
    );
    let file = &offered["broken"][0];
    assert_eq!(file["file"], "nightly.yaml");
    let problem = file["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("nightly.yaml:3:")
            && problem.contains("the time zone `Europe/Zurch` does not exist"),
        "{problem}"
    );
    assert_eq!(offered["problems"].as_array().unwrap().len(), 2);
    let (status, refused) = bed.post("/api/v1/runs", None, json!({"workflow": "bad"})).await;
    assert!(status == 422 && refused["errors"][0].as_str().unwrap().contains("has no effect"), "{refused}");
}

#[tokio::test]
async fn the_last_valid_version_of_a_changed_file_stays_in_use() {
    let bed = GatewayBed::new(&[]);
    let text = |minutes: u32, criteria: &str| {
        workflow(
            "w",
            &format!(
                "limits: {{job: {minutes}m}}\nbenchmark: {{workload: {{collective: all_reduce, min_bytes: 8, max_bytes: 1K}}, criteria: {criteria}}}\n"
            ),
        )
    };
    write(&bed, "any.yaml", "name: any\ndata_only: true\n");
    fs::rename(bed.folder.path().join("any.yaml"), bed.folder.path().join("any.criteria")).unwrap();
    write(&bed, "w.yaml", &text(7, "any.criteria"));
    assert_eq!(broken(&bed).await, 0);
    for (number, wrong) in
        ["name: [", "name: w\n", &text(8, "gone.criteria"), &text(9, "any.criteria").replace("9m", "9")]
            .iter()
            .enumerate()
    {
        write(&bed, "w.yaml", wrong);
        assert_eq!(broken(&bed).await, 1, "{wrong}");
        let offered = offered(&bed).await;
        let offer = &offered["workflows"][0];
        assert_eq!((&offer["name"], &offer["startable"]), (&json!("w"), &json!(true)), "{wrong}: {offered}");
        assert!(offer["problems"][0].as_str().unwrap().contains("w.yaml"), "{wrong}: {offered}");
        let (status, started) = bed.post("/api/v1/runs", None, json!({"workflow": "w"})).await;
        assert_eq!(status, 202, "{started}");
        let requested = bed.published("dev.burnin.run.requested.v1");
        assert_eq!(
            (requested.len(), &requested[number]["workflow"]["limits"]["job"]),
            (number + 1, &json!("7m"))
        );
    }
    write(&bed, "w.yaml", &text(10, "any.criteria"));
    assert_eq!(broken(&bed).await, 0);
    // A new process has no earlier version of the file.
    write(&bed, "w.yaml", "name: w\n");
    let mut bed = bed;
    bed.restart();
    assert_eq!(offered(&bed).await["workflows"][0]["startable"], false);
    // A deleted file is not offered.
    fs::remove_file(bed.folder.path().join("w.yaml")).unwrap();
    assert_eq!(offered(&bed).await["workflows"], json!([]));
}
