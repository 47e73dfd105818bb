//! The cost of decoding and encoding one typical pod: `cargo run --release --example codec_bench -p binnacle-kinds`.

use std::hint::black_box;
use std::time::Instant;

use binnacle_kinds::tables;
use binnacle_schema::{Limits, canonical, decode, json, yaml};

const ROUNDS: u32 = 20_000;

fn main() {
    if std::env::args().any(|arg| arg == "--decode-only") {
        let text = json::compact(POD.as_bytes(), &Limits::default()).expect("the pod is well formed");
        let message = tables::kind("", "v1", "Pod").expect("there are pods");
        for _ in 0..300_000 {
            black_box(decode::json(black_box(text.as_bytes()), message, &Limits::default())).ok();
        }
        return;
    }
    let text = json::compact(POD.as_bytes(), &Limits::default()).expect("the pod is well formed");
    let message = tables::kind("", "v1", "Pod").expect("there are pods");
    let limits = Limits::default();
    let decoded = decode::json(text.as_bytes(), message, &limits).expect("the pod is a pod");
    assert!(decoded.findings.is_empty());
    let tree = json::parse(text.as_bytes(), &limits).expect("the pod is well formed");
    let as_yaml = yaml::to_string(&tree);
    println!("{} bytes of JSON, {} of YAML, {} rounds", text.len(), as_yaml.len(), ROUNDS);

    let mut out = Vec::with_capacity(8192);
    time("decode against the schema", || decode::json(black_box(text.as_bytes()), message, &limits));
    time("parse without schema", || json::parse(black_box(text.as_bytes()), &limits));
    time("serde_json::Value", || serde_json::from_str::<serde_json::Value>(black_box(&text)));
    time("type_meta", || json::type_meta(black_box(text.as_bytes()), &limits));
    time("clone the tree", || black_box(&tree).clone());
    time("decode the tree (with a clone)", || decode::value(black_box(&tree).clone(), message));
    let mut canonical_tree = decoded.value.clone();
    time("canonicalize what is canonical", || canonical::canonicalize(black_box(&mut canonical_tree), message));
    time("write", || {
        out.clear();
        json::write(black_box(&decoded.value), &mut out);
    });
    let value: serde_json::Value = serde_json::from_str(&text).expect("the pod is well formed");
    time("serde_json::to_vec", || serde_json::to_vec(black_box(&value)));
    time("decode YAML", || decode::yaml(black_box(as_yaml.as_bytes()), message, &limits));
    time("write YAML", || yaml::to_string(black_box(&tree)));
}

fn time<T>(what: &str, mut run: impl FnMut() -> T) {
    for _ in 0..ROUNDS / 10 {
        black_box(run());
    }
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(run());
    }
    println!("{:>9.2} us  {what}", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
}

const POD: &str = r#"{
  "apiVersion": "v1",
  "kind": "Pod",
  "metadata": {
    "name": "web-7c5ddbdf54-x2x8p",
    "generateName": "web-7c5ddbdf54-",
    "namespace": "default",
    "uid": "6b9f0a0e-3e21-4c5e-9a43-0f1f6f0d9a11",
    "resourceVersion": "1234567",
    "creationTimestamp": "2026-01-02T03:04:05Z",
    "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54", "tier": "frontend"},
    "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9102", "example.com/description": "serves the front page <and> more"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7c5ddbdf54", "uid": "0a4b6f3e-54ff-4a3e-8d0c-2b1c9f0e7d55", "controller": true, "blockOwnerDeletion": true}]
  },
  "spec": {
    "volumes": [
      {"name": "config", "configMap": {"name": "web-config", "defaultMode": 420}},
      {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
      {"name": "kube-api-access-abcde", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}, {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}], "defaultMode": 420}}
    ],
    "containers": [
      {
        "name": "web",
        "image": "registry.example.com/shop/web:1.27.3",
        "args": ["--listen=:8080", "--log-format=json"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"name": "metrics", "containerPort": 9102, "protocol": "TCP"}],
        "env": [{"name": "GOMAXPROCS", "value": "2"}, {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "250m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "readOnly": true, "mountPath": "/etc/web"}, {"name": "cache", "mountPath": "/var/cache/web"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "initialDelaySeconds": 5, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false}
      }
    ],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "web",
    "nodeName": "node-17",
    "securityContext": {"fsGroup": 2000},
    "schedulerName": "default-scheduler",
    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
    "priority": 0,
    "enableServiceLinks": true,
    "preemptionPolicy": "PreemptLowerPriority"
  },
  "status": {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:15Z"}],
    "podIP": "10.1.2.3",
    "startTime": "2026-01-02T03:04:06Z",
    "qosClass": "Burstable"
  }
}"#;
