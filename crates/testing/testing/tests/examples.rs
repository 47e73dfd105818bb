//! The examples of this crate.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::process::Command;

/// Runs an example, and compares its output.
fn check(name: &str, want: &str) {
    // Cargo builds examples with the tests, in the folder beside theirs.
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let mut command = Command::new(&example);
    command.env("BINNACLE_KUBE_APISERVER", binnacle_testkit::program().get_program());
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out == want, "{out}{err}");
}

#[test]
fn kube_rs_example_passes() {
    check("kube_rs", "the pod is Pending\n");
}

#[test]
fn clusters_example_passes() {
    check("clusters", "default red\ndefault green\n");
}
