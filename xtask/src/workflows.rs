//! Tests of the forge's files: workflows only call what the repository has, with few permissions, and owners own
//! existing paths.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use binnacle_schema::{Limits, json, yaml};
use regex::Regex;
use serde_json::Value;

use crate::process::{files, root};

/// Programs of runners and containers that workflows may call.
const INSTALLED: [&str; 4] = ["diff", "gh", "git", "npm"];

/// Returns the workflows by file name.
fn workflows() -> Vec<(String, Value)> {
    let mut paths = files(&root().join(".github/workflows")).unwrap();
    paths.sort();
    let read = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (tree, repeated) = yaml::parse(&fs::read(path).unwrap(), &Limits::default()).expect(&name);
        assert!(repeated.is_none(), "{name}: {repeated:?}");
        (name, serde_json::from_str(&json::to_string(&tree)).unwrap())
    };
    paths.iter().map(|path| read(path)).collect()
}

/// Returns the jobs of a workflow with their names.
fn jobs(workflow: &Value) -> impl Iterator<Item = (&String, &Value)> {
    workflow["jobs"].as_object().unwrap().iter()
}

/// Returns the steps of all jobs, with the name of file and job.
fn steps(workflows: &[(String, Value)]) -> Vec<(String, &Value)> {
    let of_job = |file: &str, (name, job): (&String, &'_ Value)| format!("{file}: {name}: {}", job["name"]);
    let mut all = Vec::new();
    for (file, workflow) in workflows {
        for (name, job) in jobs(workflow) {
            let place = of_job(file, (name, job));
            all.extend(job["steps"].as_array().unwrap().iter().map(|step| (place.clone(), step)));
        }
    }
    all
}

#[test]
fn workflow_commands_exist() {
    let workflows = workflows();
    assert!(workflows.len() >= 4);
    let expression = Regex::new(r"\$\{\{[^}]*\}\}").unwrap();
    let mut scripts = 0;
    for (place, step) in steps(&workflows) {
        let Some(run) = step["run"].as_str() else { continue };
        for line in expression.replace_all(run, "X").lines() {
            check_command(line).unwrap_or_else(|error| panic!("{place}: {line}: {error}"));
            scripts += usize::from(line.starts_with(".ci/"));
        }
    }
    assert!(scripts > 6, "workflows call {scripts} scripts");
}

/// Checks that what a line calls exists.
fn check_command(line: &str) -> Result<(), String> {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        [script, ..] if script.contains('/') => check_script(script),
        ["cargo", "xtask", ref arguments @ ..] => check_task(arguments),
        ["cargo", "publish", .., "-p", package] => check_published(package),
        [program, ..] if INSTALLED.contains(&program) => Ok(()),
        _ => Err("workflows call scripts, tasks and a few programs".to_owned()),
    }
}

fn check_script(script: &str) -> Result<(), String> {
    let metadata = fs::metadata(root().join(script)).map_err(|error| error.to_string())?;
    if metadata.permissions().mode() & 0o111 == 0 { Err("is not executable".to_owned()) } else { Ok(()) }
}

fn check_task(arguments: &[&str]) -> Result<(), String> {
    let words = ["xtask"].into_iter().chain(arguments.iter().copied());
    crate::tasks().try_get_matches_from(words).map(drop).map_err(|error| error.to_string())
}

fn check_published(package: &str) -> Result<(), String> {
    let domains = files(&root().join("crates"))?;
    let is_published = |folder: &Path| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.contains(&format!("name = \"{package}\"\n")) && manifest.contains("\npublish = true\n")
    };
    let found = domains.iter().flat_map(|domain| files(domain).unwrap_or_default()).any(|folder| is_published(&folder));
    if found { Ok(()) } else { Err(format!("{package} is not published")) }
}

#[test]
fn rejects_commands_that_do_not_exist() {
    for line in [
        ".ci/missing",
        "Cargo.toml/x",
        "README.md/",
        "cargo xtask missing",
        "cargo xtask dist --missing",
        "cargo publish -p kube-apiserver",
        "curl x",
    ] {
        assert!(check_command(line).is_err(), "{line}");
    }
    for line in [".ci/run", "cargo xtask mutants", "cargo publish --locked -p binnacle-testing"] {
        check_command(line).unwrap();
    }
}

#[test]
fn workflows_have_few_permissions() {
    let jobs_that_may_write = [("release.yml", "publish"), ("release.yml", "image"), ("scorecard.yml", "scorecard")];
    for (file, workflow) in &workflows() {
        assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}), "{file}");
        // It would run with secrets on the code of strangers.
        assert!(workflow["true"].get("pull_request_target").is_none(), "{file}");
        for (name, job) in jobs(workflow) {
            assert!(job["timeout-minutes"].is_u64(), "{file}: {name} has no time limit");
            for (permission, value) in job["permissions"].as_object().into_iter().flatten() {
                let is_identity = permission == "id-token" && job["environment"] == "release";
                let may_write = value == "read" || is_identity || jobs_that_may_write.contains(&(file, name));
                assert!(may_write, "{file}: {name}: {permission}: {value}");
            }
        }
    }
}

#[test]
fn actions_are_pinned_and_get_no_credentials() {
    let workflows = workflows();
    let pinned = Regex::new(r"^[A-Za-z0-9-]+/[a-z0-9-]+(/[a-z-]+)?@(v\d+|release/v\d+|[0-9a-f]{40})$").unwrap();
    for (place, step) in steps(&workflows) {
        let Some(action) = step["uses"].as_str() else { continue };
        assert!(pinned.is_match(action), "{place}: {action}");
        if action.starts_with("actions/checkout@") {
            assert_eq!(step["with"]["persist-credentials"], false, "{place}");
        }
    }
}

#[test]
fn scripts_call_tasks_that_exist() {
    let mut tasks = 0;
    for path in files(&root().join(".ci")).unwrap() {
        let text = fs::read_to_string(&path).unwrap().replace("\\\n", " ");
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("cargo xtask ")) {
            let words: Vec<_> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            check_task(&words).unwrap_or_else(|error| panic!("{}: {line}: {error}", path.display()));
            tasks += 1;
        }
    }
    assert!(tasks > 4, "scripts call {tasks} tasks");
}

#[test]
fn owners_own_existing_paths() {
    let root = root();
    let text = fs::read_to_string(root.join(".github/CODEOWNERS")).unwrap();
    let paths: Vec<_> = text.lines().filter_map(|line| line.strip_prefix('/')?.split_whitespace().next()).collect();
    for path in &paths {
        assert_eq!(root.join(path).is_dir(), path.ends_with('/'), "{path}");
        assert!(root.join(path).exists(), "{path}");
    }
    for domain in files(&root.join("crates")).unwrap() {
        let name = domain.file_name().unwrap().to_string_lossy().into_owned();
        assert!(paths.iter().any(|path| path.starts_with(&format!("crates/{name}/"))), "crates/{name} has no owner");
    }
}

#[test]
fn badges_show_existing_workflows() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let badge = Regex::new(r"/actions/workflows/([a-z.]+)/badge\.svg").unwrap();
    let shown: Vec<_> = badge.captures_iter(&readme).map(|found| found[1].to_owned()).collect();
    assert!(!shown.is_empty());
    for workflow in shown {
        assert!(root().join(".github/workflows").join(&workflow).is_file(), "{workflow}");
    }
}
