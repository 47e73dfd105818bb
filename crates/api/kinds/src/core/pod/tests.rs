use std::sync::LazyLock;

use binnacle_schema::{Value, value};

use super::*;

static CTX: LazyLock<StrategyContext<'static>> = LazyLock::new(|| crate::testing::ctx("default"));

fn check_defaults(spec: Value, want: Value) {
    let mut object = value!({"spec": spec});
    Pod.set_defaults("v1", &mut object);
    for (name, value) in want.as_object().expect("cases are objects").iter() {
        assert_eq!(object.at(&["spec", name.as_str()]).unwrap_or(&Value::Null), value, "{name}");
    }
}

#[test]
fn sets_pod_spec_defaults() {
    check_defaults(
        value!({"containers": [{"name": "c", "image": "nginx"}], "volumes": [{"name": "v"}], "serviceAccount": "sa"}),
        value!({
            "containers": [{
                "name": "c", "image": "nginx", "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
            }],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "serviceAccount": "sa", "serviceAccountName": "sa", "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
            "securityContext": {}, "terminationGracePeriodSeconds": 30i64, "schedulerName": "default-scheduler",
            "enableServiceLinks": true
        }),
    );
    check_defaults(value!({"terminationGracePeriodSeconds": (-5i64)}), value!({"terminationGracePeriodSeconds": 1i64}));
    check_defaults(
        value!({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}, "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "300m"}, "limits": {"hugepages-2Mi": "4Mi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "200m"}}}
        ]}),
        value!({"resources": {
            "limits": {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
            "requests": {"cpu": "500m", "memory": "1Gi", "hugepages-2Mi": "4Mi"}
        }}),
    );
    check_defaults(
        value!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80i64}], "image": "a:1", "livenessProbe": {"httpGet": {"port": 1i64}, "grpc": {}}}]}),
        value!({"containers": [{
            "ports": [{"containerPort": 80i64, "hostPort": 80i64, "protocol": "TCP"}],
            "image": "a:1", "imagePullPolicy": "IfNotPresent",
            "livenessProbe": {
                "httpGet": {"port": 1i64, "path": "/", "scheme": "HTTP"}, "grpc": {"service": ""},
                "timeoutSeconds": 1i64, "periodSeconds": 10i64, "successThreshold": 1i64, "failureThreshold": 3i64
            },
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
        }]}),
    );
}

#[test]
fn sets_volume_defaults() {
    for (given, want) in [
        (value!({"secret": {}}), value!({"secret": {"defaultMode": 420i64}})),
        (value!({"configMap": {"defaultMode": 0i64}}), value!({"configMap": {"defaultMode": 0i64}})),
        (value!({"hostPath": {"path": "/"}}), value!({"hostPath": {"path": "/", "type": ""}})),
        (
            value!({"image": {"reference": "a:latest"}}),
            value!({"image": {"reference": "a:latest", "pullPolicy": "Always"}}),
        ),
        (
            value!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": [{"fieldRef": {}}]}}]}}),
            value!({"projected": {"defaultMode": 420i64, "sources": [
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600i64}},
                {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1"}}]}}
            ]}}),
        ),
        (
            value!({"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1u"}}}}}}),
            value!({"ephemeral": {"volumeClaimTemplate": {"spec": {
                "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1m"}}
            }}}}),
        ),
        (
            value!({"azureDisk": {}}),
            value!({"azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false, "kind": "Shared"}}),
        ),
    ] {
        check_defaults(value!({"volumes": [given]}), value!({"volumes": [want]}));
    }
}

#[test]
fn computes_qos_classes() {
    let container = |resources: Value| value!({"containers": [{"resources": resources}]});
    for (spec, want) in [
        (container(value!({})), "BestEffort"),
        (container(value!({"requests": {"cpu": "0"}})), "BestEffort"),
        (container(value!({"requests": {"example.com/x": "1"}})), "BestEffort"),
        (container(value!({"requests": {"cpu": "1"}})), "Burstable"),
        (
            container(
                value!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}),
            ),
            "Guaranteed",
        ),
        (container(value!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})), "Burstable"),
        (
            value!({"resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}, "containers": [{}]}),
            "Guaranteed",
        ),
        (value!({"resources": {"requests": {"cpu": "1"}}}), "Burstable"),
    ] {
        assert_eq!(resources::qos_class(spec.as_object().expect("cases are objects")), want, "{spec:?}");
    }
}

#[test]
fn prepares_new_pods() {
    let mut object = value!({
        "metadata": {
            "labels": {"app": "a"},
            "annotations": {"container.apparmor.security.beta.kubernetes.io/c": "localhost/p"}
        },
        "spec": {
            "containers": [{"name": "c"}],
            "schedulingGates": [{"name": "g"}],
            "topologySpreadConstraints": [{"labelSelector": {}, "matchLabelKeys": ["app", "absent"]}, {"matchLabelKeys": ["app"]}]
        },
        "status": {"phase": "Running"}
    });
    Pod.prepare_for_create(&CTX, &mut object);
    assert_eq!(
        object,
        value!({
            "metadata": {
                "generation": 1i64,
                "labels": {"app": "a"},
                "annotations": {"container.apparmor.security.beta.kubernetes.io/c": "localhost/p"}
            },
            "spec": {
                "containers": [{
                    "name": "c",
                    "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}}
                }],
                "schedulingGates": [{"name": "g"}],
                "topologySpreadConstraints": [
                    {
                        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]},
                        "matchLabelKeys": ["app", "absent"]
                    },
                    {"matchLabelKeys": ["app"]}
                ]
            },
            "status": {
                "phase": "Pending",
                "qosClass": "BestEffort",
                "conditions": [{
                    "type": "PodScheduled", "status": "False", "lastTransitionTime": "1970-01-01T00:00:00Z",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates"
                }]
            }
        })
    );
}

#[test]
fn prepares_status_updates() {
    let old = value!({
        "metadata": {"generation": 2i64, "ownerReferences": [{"uid": "1"}]},
        "spec": {"nodeName": "a"},
        "status": {"qosClass": "Burstable", "observedGeneration": 2i64, "conditions": [{"type": "Ready", "observedGeneration": 1i64}]}
    });
    let mut object = value!({
        "metadata": {"generation": 2i64, "labels": {"a": "b"}, "deletionTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"nodeName": "b"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready"}, {"type": "Ready"}]}
    });
    Pod.prepare_for_subresource("status", &CTX, &mut object, &old);
    assert_eq!(
        object,
        value!({
            "metadata": {"generation": 2i64, "labels": {"a": "b"}, "ownerReferences": [{"uid": "1"}]},
            "spec": {"nodeName": "a"},
            "status": {
                "phase": "Running", "qosClass": "Burstable", "observedGeneration": 2i64,
                "conditions": [{"type": "Ready", "observedGeneration": 1i64}, {"type": "Ready"}]
            }
        })
    );
}

#[test]
fn resize_changes_only_resources() {
    let old = value!({
        "metadata": {"generation": 1i64},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}
    });
    let mut object = value!({
        "metadata": {"generation": 1i64, "labels": {"a": "b"}},
        "spec": {"nodeName": "b", "containers": [{"name": "c", "image": "j", "resources": {"limits": {"cpu": "2"}}}]},
        "status": {"phase": "Failed"}
    });
    Pod.prepare_for_subresource("resize", &CTX, &mut object, &old);
    assert_eq!(
        object,
        value!({
            "metadata": {"generation": 2i64},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]},
            "status": {"phase": "Running"}
        })
    );
}

#[test]
fn computes_deletion_grace_periods() {
    let pod = |node: &str, phase: &str, grace: Value| value!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": grace}, "status": {"phase": phase}});
    for (object, asked, want) in [
        (pod("n", "Running", value!(30i64)), None, 30),
        (pod("n", "Running", value!(30i64)), Some(5), 5),
        (pod("n", "Running", value!(30i64)), Some(-5), 1),
        (pod("n", "Running", value!(null)), None, 0),
        (pod("", "Pending", value!(30i64)), Some(5), 0),
        (pod("n", "Succeeded", value!(30i64)), None, 0),
        (pod("n", "Failed", value!(30i64)), Some(9), 0),
    ] {
        assert_eq!(Pod.delete_grace(&object, asked), DeleteGrace::Seconds(want), "{object:?} {asked:?}");
    }
}
