//! The switch that makes tests use a logical cluster of each server instead of the server itself:
//! `BINNACLE_TEST_LOGICAL_CLUSTER=1`. Tests of flags that apply only to the host fail with it.

use std::path::{Path, PathBuf};

use crate::{TempDir, tool, wait_until_blocking};

/// The path of the cluster.
pub(crate) const PATH: &str = "/clusters/test";
const NAME: &str = "test";

/// Returns true if tests use a logical cluster of a server with these arguments. A server that only reads hosts none.
pub(crate) fn is_used(arguments: &[String]) -> bool {
    std::env::var_os("BINNACLE_TEST_LOGICAL_CLUSTER").is_some() && !arguments.iter().any(|flag| flag == "--read-only")
}

/// Creates the cluster unless it exists, and returns the kubeconfig of its administrator.
pub(crate) fn create(host: &Path, temp: &TempDir) -> PathBuf {
    let run = |arguments: &[&str]| {
        let output = tool().arg("cluster").arg("--kubeconfig").arg(host).args(arguments).output().unwrap();
        output.status.success()
    };
    let kubeconfig = temp.join("cluster.kubeconfig");
    wait_until_blocking("the logical cluster", || {
        // The definition is installed after the start.
        let exists = run(&["resume", NAME]) || run(&["create", NAME]);
        (exists && run(&["kubeconfig", NAME, "--output", &kubeconfig])).then_some(())
    });
    kubeconfig.into()
}
