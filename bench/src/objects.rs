//! Objects of realistic sizes.

use serde_json::{Value, json};

/// Returns a pod with two containers: 1.7 KB in a request and 4.9 KB in a response.
pub(crate) fn pod(name: &str, n: usize) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 5});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": format!("app-{}", n % 100), "tier": "backend", "pod-template-hash": "6c8b4f9d7b"},
            "annotations": {"example.com/checksum": "0".repeat(64)},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6c8b4f9d7b",
                "uid": "6d0fd7c8-4c1c-4f57-9c5b-0f6f2f0a4f11", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "serviceAccountName": "default",
            "automountServiceAccountToken": false,
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example.com/team/web:1.42.7",
                    "ports": [{"containerPort": 8080, "name": "http"}],
                    "env": [
                        {"name": "MODE", "value": "production"},
                        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    ],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    "readinessProbe": probe("/ready"),
                    "livenessProbe": probe("/live"),
                    "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}, {"name": "tmp", "mountPath": "/tmp"}],
                },
                {
                    "name": "sidecar",
                    "image": "registry.example.com/mesh/proxy:2.3.1",
                    "args": ["--admin", "127.0.0.1:9901"],
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                },
            ],
            "volumes": [{"name": "config", "configMap": {"name": "web-config"}}, {"name": "tmp", "emptyDir": {}}],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100,
                "podAffinityTerm": {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                },
            }]}},
        },
    })
}

/// Returns a config map of a few hundred bytes, to be created in large numbers.
pub(crate) fn small(name: &str, n: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": format!("app-{}", n % 1000)}},
        "data": {"n": n.to_string()},
    })
}

pub(crate) fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
    })
}
