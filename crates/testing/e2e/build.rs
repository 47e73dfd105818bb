//! Which of the tests can run here.

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    declare(&[
        Requirement::Chromium,
        Requirement::Etcd,
        Requirement::EtcdRanges,
        Requirement::Helm,
        Requirement::Kopf,
        Requirement::Kubectl,
        Requirement::Node,
        Requirement::Prometheus,
        Requirement::Pytest,
        Requirement::Python,
        Requirement::PythonClient,
        Requirement::RecentKubectl,
        Requirement::Shared,
    ]);
}
