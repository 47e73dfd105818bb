//! The Python client.

use std::process::Command;

use binnacle_testkit::Server;

#[test]
#[cfg_attr(not(has_python_client), ignore = "needs the package kubernetes of Python")]
fn python_client_writes_objects() {
    run("writes.py", "all written");
}

/// An operator that uses kopf: its own definition; handlers for creation, changes and deletion; events and peering.
#[test]
#[cfg_attr(not(has_kopf), ignore = "needs the packages kopf and kubernetes of Python")]
fn kopf_operator_reconciles_objects() {
    run("handlers.py", "all handled");
}

/// Runs a script against a new server, and expects its output to end with a text. `BINNACLE_PYTHON` overrides the
/// interpreter on the path.
fn run(script: &str, end: &str) {
    let python = std::env::var_os("BINNACLE_PYTHON").unwrap_or_else(|| "python3".into());
    let server = Server::ephemeral();
    let script = format!("{}/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(&python).arg(script).arg(server.kubeconfig()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(end), "{out}{err}");
}
