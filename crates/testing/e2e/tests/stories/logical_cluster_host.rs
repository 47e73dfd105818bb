//! A server with logical clusters, for the tests of them.

use std::path::PathBuf;

use binnacle_testkit::{Kubectl, Server, wait_until_blocking};
use serde_json::{Value, json};

/// A definition of a resource.
pub(crate) const THINGS: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.clusters.test"}, "spec": {"group": "clusters.test", "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

/// A server with logical clusters, and kubectl of its administrator.
pub(crate) struct Host {
    pub(crate) server: Server,
    pub(crate) kubectl: Kubectl,
}

impl Host {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let server = Server::durable_with(&[&["--logical-clusters"], flags].concat());
        let kubectl = Kubectl::new(&server);
        Self { server, kubectl }
    }

    /// Creates a cluster, and returns kubectl of its administrator.
    pub(crate) fn create(&self, name: &str, spec: &Value) -> Kubectl {
        let object =
            json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name},
            "spec": spec})
            .to_string();
        wait_until_blocking("the cluster is created", || {
            // The definition is installed after the start.
            self.kubectl.run_with(&["create", "-f", "-"], &object).success.then_some(())
        });
        self.administrator(name)
    }

    /// Waits until a cluster is ready, and returns kubectl of its administrator.
    pub(crate) fn administrator(&self, name: &str) -> Kubectl {
        self.wait_for(name, "Ready");
        self.kubectl.with_kubeconfig(self.kubeconfig(name))
    }

    pub(crate) fn wait_for(&self, name: &str, phase: &str) {
        let phase = format!("--for=jsonpath={{.status.phase}}={phase}");
        self.kubectl.ok(&["wait", &phase, &format!("logicalclusters/{name}"), "--timeout=30s"]);
    }

    /// Writes the kubeconfig of a cluster's administrator to a file.
    pub(crate) fn kubeconfig(&self, name: &str) -> PathBuf {
        let secret = self.kubectl.ok(&[
            "get",
            "secret",
            "--namespace=logical-clusters",
            &format!("{name}-kubeconfig"),
            "--output=go-template={{.data.kubeconfig | base64decode}}",
        ]);
        let path = self.server.temp().path().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, secret).unwrap();
        path
    }

    /// Waits until this number of clusters is awake.
    pub(crate) fn wait_for_awake(&self, count: usize) {
        wait_until_blocking("the number of clusters that are awake", || {
            let metrics = self.kubectl.ok(&["get", "--raw", "/metrics"]);
            metrics.contains(&format!("\nbinnacle_logical_clusters_awake {count}\n")).then_some(())
        });
    }
}

/// The names of the config maps that a test made.
pub(crate) fn maps(kubectl: &Kubectl) -> String {
    kubectl.ok(&["get", "configmaps", "--namespace=default", "--output=name"])
}

pub(crate) fn make_map(kubectl: &Kubectl, name: &str) {
    kubectl.ok(&["create", "configmap", "--namespace=default", name, &format!("--from-literal=of={name}")]);
}
