//! The CustomResourceDefinition of `logicalclusters`.

use binnacle_schema::{Value, value};

use super::{limits, status};

pub(crate) const GROUP: &str = "binnacle.dev";
pub(crate) const VERSION: &str = "v1alpha1";
pub(crate) const PLURAL: &str = "logicalclusters";
/// The maximum length of a name, which is a part of URLs and of names of Secrets.
const MAX_NAME: i64 = 63;

/// Returns the name of the definition.
pub(super) fn name() -> String {
    format!("{PLURAL}.{GROUP}")
}

/// Returns the definition.
pub(super) fn definition() -> Value {
    value!({"metadata": {"name": (name())}, "spec": (spec())})
}

/// Returns its spec.
pub(super) fn spec() -> Value {
    let printed = |name: &str, path: &str, kind: &str| value!({"name": name, "type": kind, "jsonPath": path});
    let columns = Value::List(vec![
        printed("Phase", ".status.phase", "string"),
        printed("URL", ".status.url", "string"),
        printed("Age", ".metadata.creationTimestamp", "date"),
    ]);
    let version = value!({
        "name": VERSION,
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": (schema())},
    });
    value!({
        "group": GROUP,
        "scope": "Cluster",
        "names": {
            "plural": PLURAL,
            "singular": "logicalcluster",
            "kind": "LogicalCluster",
            "listKind": "LogicalClusterList",
        },
        "versions": (Value::List(vec![version])),
    })
}

fn schema() -> Value {
    let name_rule = value!({
        "rule": "self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",
        "message": "metadata.name must be a DNS label",
    });
    value!({
        "type": "object",
        "description": "A Kubernetes API of its own, served by the same process below /clusters/NAME.",
        "x-kubernetes-validations": (Value::List(vec![name_rule, source_rule(), own_source_rule()])),
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": MAX_NAME}}},
            "spec": {
                "type": "object",
                "properties": {
                    "idleAfter": (idle_after()),
                    "suspended": (suspended()),
                    "port": (port()),
                    "quota": (limits::schema()),
                    "source": (source()),
                    "controllers": {
                        "type": "array",
                        "maxItems": 32,
                        "items": {"type": "string", "maxLength": 64},
                        "description": "The controllers of kube-controller-manager to run for this cluster, as in the flag \
                                        --run-controllers, whose value is the default.",
                    },
                },
            },
            "status": (status::schema()),
        },
    })
}

/// Returns the rule that a cluster neither becomes a fork nor ends to be one.
fn source_rule() -> Value {
    let rule = "has(self.spec) && has(self.spec.source) \
                ? has(oldSelf.spec) && has(oldSelf.spec.source) && self.spec.source == oldSelf.spec.source \
                : !has(oldSelf.spec) || !has(oldSelf.spec.source)";
    value!({"rule": rule, "message": "spec.source is immutable", "fieldPath": ".spec.source"})
}

fn own_source_rule() -> Value {
    let rule = "!has(self.spec) || !has(self.spec.source) || self.spec.source.cluster != self.metadata.name";
    value!({"rule": rule, "message": "a cluster cannot be its own source", "fieldPath": ".spec.source"})
}

fn source() -> Value {
    value!({
        "type": "object",
        "description": "The cluster whose contents this one has at first. Creating a fork needs the verb fork on it.",
        "required": ["cluster"],
        "properties": {
            "cluster": {
                "type": "string",
                "description": "The name of the cluster.",
                "minLength": 1,
                "maxLength": MAX_NAME,
            },
            "revision": {
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "description": "The resourceVersion at which the cluster is forked. The default is the current one.",
            },
            "newIdentity": {
                "type": "boolean",
                "description": "True if the namespace kube-system gets another uid and Secrets with tokens are left out.",
            },
        },
    })
}

fn idle_after() -> Value {
    value!({
        "type": "string",
        "format": "duration",
        "description": "The time without requests after which the cluster is stopped until the next request. The default \
                        is 10m; 0s means never.",
    })
}

fn suspended() -> Value {
    value!({"type": "boolean", "description": "True if the cluster is stopped and refuses requests."})
}

fn port() -> Value {
    value!({
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 65535,
        "description": "A port of the host at which only this cluster is served, without a prefix of paths. Its service \
                        kubernetes has the host's address with this port as its endpoint.",
    })
}
