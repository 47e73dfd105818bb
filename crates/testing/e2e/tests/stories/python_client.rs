//! The Python client, if it is installed.

use std::process::{Command, Stdio};

use binnacle_testkit::Server;

/// `BINNACLE_PYTHON` names an interpreter other than the first one on the path.
#[test]
fn writes() {
    run(&["kubernetes"], "writes.py", "all written");
}

/// An operator made with kopf: its own definition, handlers of creations, changes and deletions, events and peering.
#[test]
fn an_operator() {
    run(&["kopf", "kubernetes"], "handlers.py", "all handled");
}

/// Runs a script against a new server, and expects a text at its end. `BINNACLE_PYTHON` names another interpreter than
/// the first one on the path.
fn run(packages: &[&str], script: &str, end: &str) {
    let python = std::env::var_os("BINNACLE_PYTHON").unwrap_or_else(|| "python3".into());
    let mut import = Command::new(&python);
    import.args(["-c", &format!("import {}", packages.join(", "))]).stderr(Stdio::null());
    if !import.status().is_ok_and(|status| status.success()) {
        println!("skipped: no Python with the packages {}", packages.join(" and "));
        return;
    }
    let server = Server::ephemeral();
    let script = format!("{}/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(&python).arg(script).arg(server.kubeconfig()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(end), "{out}{err}");
}
