//! The Python client, if it is installed.

use std::process::{Command, Stdio};

use binnacle_testkit::Server;

/// `BINNACLE_PYTHON` names an interpreter other than the first one on the path.
#[test]
fn writes() {
    let python = std::env::var_os("BINNACLE_PYTHON").unwrap_or_else(|| "python3".into());
    let mut import = Command::new(&python);
    import.args(["-c", "import kubernetes"]).stderr(Stdio::null());
    if !import.status().is_ok_and(|status| status.success()) {
        println!("skipped: no Python with the package kubernetes");
        return;
    }
    let server = Server::ephemeral();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/writes.py");
    let output = Command::new(&python).arg(script).arg(server.kubeconfig()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("all written"), "{out}{err}");
}
