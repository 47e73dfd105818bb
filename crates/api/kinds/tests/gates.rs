//! Updates that feature gates allow: each with its gate on and off, as set by `--feature-gates` and
//! `--emulated-version`.

use binnacle_features::{Features, Gates, Version};
use binnacle_kinds::strategy;
use binnacle_schema::{Value, value};
use binnacle_scheme::StrategyContext;

/// Returns the errors of an update, of the status or of the object itself, and the object that is stored.
fn update(
    gate: &str,
    (group, kind): (&str, &str),
    subresource: &str,
    new: &Value,
    old: &Value,
) -> (Vec<String>, Value) {
    let gates = Gates::parse(&[gate], Version::BINARY, Version::BINARY.previous()).expect("a gate that can be set");
    let features = Features { gates, allow_privileged: false, read_only: false };
    let ctx =
        StrategyContext { features: &features, now: 1_767_225_600, namespace: "ns", api_version: "v1", dry_run: false };
    let (strategy, mut object) = (strategy(group, kind), new.clone());
    let errors = if subresource.is_empty() {
        strategy.prepare_for_update(&ctx, &mut object, old);
        strategy.validate_update(&ctx, &object, old)
    } else {
        strategy.validate_subresource(subresource, &ctx, &object, old)
    };
    (errors.iter().map(|error| error.to_string()).collect(), object)
}

/// Returns the object with another value on a path.
fn with(object: &Value, path: &[&str], value: Value) -> Value {
    let mut changed = object.clone();
    let (last, path) = path.split_last().expect("a path");
    changed.make_at(path).insert((*last).to_owned(), value);
    changed
}

#[test]
fn gates_control_mutability_of_suspended_jobs() {
    let template = value!({"spec": {
        "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30i64,
        "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePath": "/m",
            "terminationMessagePolicy": "File"}]
    }});
    let job = value!({
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"suspend": true, "parallelism": 1i64, "completions": 1i64, "manualSelector": true,
            "completionMode": "NonIndexed", "backoffLimit": 6i64, "selector": {}, "template": template},
        "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]},
    });
    let path = ["spec", "template", "spec"];
    let placed = with(&job, &[&path[..], &["nodeSelector"]].concat(), value!({"a": "b"}));
    let mut sized = job.clone();
    let limits = value!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
    let containers = sized.make_at(&path).get_mut("containers").and_then(Value::as_list_mut).expect("a container");
    containers[0].make_object().insert("resources", limits);
    for (gate, placing, sizing) in [
        ("MutableSchedulingDirectivesForSuspendedJobs=true", true, true),
        ("MutableSchedulingDirectivesForSuspendedJobs=false", false, true),
        ("MutablePodResourcesForSuspendedJobs=false", true, false),
    ] {
        for (new, allowed) in [(&placed, placing), (&sized, sizing)] {
            let errors = update(gate, ("batch", "Job"), "", new, &job).0;
            let refused = errors.iter().any(|error| error.contains("field is immutable"));
            assert_eq!(refused, !allowed, "{gate}: {errors:?}");
        }
    }
}

#[test]
fn gate_controls_mutability_of_volume_affinity() {
    let term = |node: &str| {
        value!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [(node)]}]}
        ]}})
    };
    let volume = value!({
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": "/a"}, "nodeAffinity": (term("a"))},
    });
    let moved = with(&volume, &["spec", "nodeAffinity"], term("b"));
    for (gate, count) in [("MutablePVNodeAffinity=false", 1), ("MutablePVNodeAffinity=true", 0)] {
        let errors = update(gate, ("", "PersistentVolume"), "", &moved, &volume).0;
        assert_eq!(errors.len(), count, "{gate}: {errors:?}");
    }
}

#[test]
fn gate_controls_nomination_of_bound_pods() {
    let pod = value!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n"}, "status": {}});
    let nominated = with(&pod, &["status", "nominatedNodeName"], "m".into());
    let refused = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node";
    for (gate, want) in [
        ("ClearingNominatedNodeNameAfterBinding=true", vec![refused.to_owned()]),
        ("ClearingNominatedNodeNameAfterBinding=false", Vec::new()),
    ] {
        assert_eq!(update(gate, ("", "Pod"), "status", &nominated, &pod).0, want, "{gate}");
    }
}

#[test]
fn gate_controls_reset_of_service_cidr_status() {
    let range = value!({"metadata": {"name": "r"}, "spec": {"cidrs": ["10.0.0.0/24"]}});
    let written = with(&range, &["status"], value!({"conditions": []}));
    for (gate, is_kept) in [("ServiceCIDRStatusFieldWiping=true", false), ("ServiceCIDRStatusFieldWiping=false", true)]
    {
        let (errors, stored) = update(gate, ("networking.k8s.io", "ServiceCIDR"), "", &written, &range);
        assert_eq!((errors, stored.get("status").is_some()), (Vec::new(), is_kept), "{gate}");
    }
}
