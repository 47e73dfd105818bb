//! The examples of this crate.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::process::Command;

#[test]
fn kube_rs_example_passes() {
    // Cargo builds examples with the tests, in the folder beside theirs.
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/kube_rs");
    let mut command = Command::new(&example);
    command.env("BINNACLE_KUBE_APISERVER", binnacle_testkit::program().get_program());
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out == "the pod is Pending\n", "{out}{err}");
}
