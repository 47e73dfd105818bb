//! The requests by which instrumented servers count what they do.

use std::path::{Path, PathBuf};

use crate::process::{cargo, finish};

/// The bench, which itself may be slow.
const BENCH: [&str; 5] = ["run", "-p", "binnacle-bench", "--", "--scale=0.2"];
/// Servers that start and wait, without flags and with those of a control plane.
const START: [&str; 2] = ["idle", "configured"];
/// The start, and the paths that requests take most often.
const PATHS: [&str; 9] = ["idle", "configured", "create", "get", "list", "patch", "apply", "leases", "watch"];
/// End-to-end tests of paths that the bench does not cover.
#[rustfmt::skip]
const STORIES: [&str; 12] = [
    "test", "-p", "binnacle-e2e", "--no-fail-fast", "--",
    "admission_policies", "aggregation::", "controller::", "custom_resources::", "kubectl_", "nodes::", "webhooks::",
];

/// Runs cargo commands with an instrumented server.
pub(crate) struct TrainingRun<'t> {
    pub(crate) server: PathBuf,
    pub(crate) root: &'t Path,
}

impl TrainingRun<'_> {
    /// Starts servers and lets them idle. Their counts go to a directory.
    pub(crate) fn start(&self, counts: &Path) -> Result<(), String> {
        self.run(counts, &[&BENCH[..], &START].concat())
    }

    /// Runs the bench, whose counts go to a directory.
    pub(crate) fn bench(&self, counts: &Path) -> Result<(), String> {
        self.run(counts, &[&BENCH[..], &PATHS].concat())
    }

    /// Runs the tests. Some time out with a slow server; their counts up to then are used.
    pub(crate) fn stories(&self, counts: &Path) {
        if let Err(problem) = self.run(counts, &STORIES) {
            eprintln!("warning: {problem}");
        }
    }

    fn run(&self, counts: &Path, arguments: &[&str]) -> Result<(), String> {
        // Successive servers add to the same few files.
        let file = counts.join("%4m.profraw");
        let mut command = cargo(self.root);
        command.args(arguments).env("BINNACLE_KUBE_APISERVER", &self.server).env("LLVM_PROFILE_FILE", file);
        finish(&mut command)
    }
}
