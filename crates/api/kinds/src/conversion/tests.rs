use binnacle_schema::canonical::canonicalize;
use binnacle_schema::{Limits, Message, Ty, Value, decode, json};

use super::{CONVERSIONS, conversion, removed_versions};
use crate::tables;

/// Decodes an object as a client sends it.
fn object(group: &str, version: &str, kind: &str, members: &str) -> Value {
    let message = tables::kind(group, version, kind).expect("kind");
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let text = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}",{members}}}"#);
    decode::json(text.as_bytes(), message, &Limits::default()).expect("valid").value
}

fn check(from: (&str, &str, &str, &str), to: (&str, &str, &str, &str)) {
    let (convert_to, convert_from) = conversion(from.0, from.1, from.2).expect("conversion");
    let original = object(from.0, from.1, from.2, from.3);
    let mut got = original.clone();
    convert_to(&mut got);
    let want = object(to.0, to.1, to.2, to.3);
    assert_eq!(json::to_string(&got), json::to_string(&want));
    convert_from(&mut got);
    assert_eq!(json::to_string(&got), json::to_string(&original));
}

#[test]
fn converts_events() {
    check(
        (
            "events.k8s.io",
            "v1",
            "Event",
            r#""metadata":{"name":"e"},"eventTime":"2026-01-02T03:04:05.000006Z","reportingController":"c","reportingInstance":"i",
            "action":"a","reason":"r","regarding":{"kind":"Pod","name":"p"},"related":{"kind":"Node"},"note":"n","type":"Normal",
            "series":{"count":2,"lastObservedTime":"2026-01-02T03:04:05.000006Z"},
            "deprecatedSource":{"component":"s"},"deprecatedFirstTimestamp":"2026-01-02T03:04:05Z","deprecatedCount":3"#,
        ),
        (
            "",
            "v1",
            "Event",
            r#""metadata":{"name":"e"},"eventTime":"2026-01-02T03:04:05.000006Z","reportingComponent":"c","reportingInstance":"i",
            "action":"a","reason":"r","involvedObject":{"kind":"Pod","name":"p"},"related":{"kind":"Node"},"message":"n","type":"Normal",
            "series":{"count":2,"lastObservedTime":"2026-01-02T03:04:05.000006Z"},
            "source":{"component":"s"},"firstTimestamp":"2026-01-02T03:04:05Z","count":3"#,
        ),
    );
}

/// Fields that v1beta1 gives once apply to all versions in v1, and absent fields get the defaults of v1beta1.
#[test]
fn converts_v1beta1_definitions() {
    let (convert, back) =
        conversion("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition").expect("conversion");
    let old = |members: &str| object("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition", members);
    let new = |members: &str| object("apiextensions.k8s.io", "v1", "CustomResourceDefinition", members);
    for (from, to) in [
        (
            r#""metadata":{"name":"as.a"},"spec":{"group":"a","version":"v1","names":{"plural":"as","kind":"A"}}"#,
            r#""metadata":{"name":"as.a"},"spec":{"group":"a","names":{"plural":"as","singular":"a","kind":"A","listKind":"AList"},
            "scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true}],"conversion":{"strategy":"None"},
            "preserveUnknownFields":true},"status":{"storedVersions":["v1"]}"#,
        ),
        (
            r#""metadata":{"name":"as.a"},"spec":{"group":"a","version":"v1","scope":"Cluster",
            "names":{"plural":"as","singular":"one","kind":"A","listKind":"As"},
            "versions":[{"name":"v1","served":true,"storage":false},{"name":"v2","served":true,"storage":true}],
            "validation":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},
            "additionalPrinterColumns":[{"name":"c","type":"string","JSONPath":".spec.c"}],
            "conversion":{"strategy":"Webhook","webhookClientConfig":{"service":{"namespace":"n","name":"s"}}}}"#,
            r#""metadata":{"name":"as.a"},"spec":{"group":"a","scope":"Cluster",
            "names":{"plural":"as","singular":"one","kind":"A","listKind":"As"},
            "versions":[{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}},
            "subresources":{"status":{}},"additionalPrinterColumns":[{"name":"c","type":"string","jsonPath":".spec.c"}]},
            {"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},
            "subresources":{"status":{}},"additionalPrinterColumns":[{"name":"c","type":"string","jsonPath":".spec.c"}]}],
            "conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"namespace":"n","name":"s","port":443}},
            "conversionReviewVersions":["v1beta1"]}},"preserveUnknownFields":true},"status":{"storedVersions":["v2"]}"#,
        ),
    ] {
        let (mut got, want) = (old(from), new(to));
        convert(&mut got);
        assert_eq!(json::to_string(&got), json::to_string(&want));
        back(&mut got);
        convert(&mut got);
        assert_eq!(json::to_string(&got), json::to_string(&want));
    }
}

#[test]
fn converts_cpu_utilization_to_metrics() {
    check(
        (
            "autoscaling",
            "v1",
            "HorizontalPodAutoscaler",
            r#""metadata":{"name":"a"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3,"targetCPUUtilizationPercentage":50}"#,
        ),
        (
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
            r#""metadata":{"name":"a"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3,"metrics":[
            {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}"#,
        ),
    );
}

/// Fields of v2 that v1 lacks are converted to annotations and back.
#[test]
fn keeps_v2_autoscaler_fields_in_annotations() {
    let (to_v2, from_v2) = conversion("autoscaling", "v1", "HorizontalPodAutoscaler").expect("conversion");
    let original = object(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        r#""metadata":{"name":"a","annotations":{"k":"v"}},"spec":{"scaleTargetRef":{"kind":"D","name":"d"},"maxReplicas":3,
        "metrics":[
          {"type":"Pods","pods":{"metric":{"name":"p","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue","averageValue":"1k"}}},
          {"type":"Object","object":{"describedObject":{"kind":"S","name":"s"},"metric":{"name":"o"},"target":{"type":"AverageValue","averageValue":"5"}}},
          {"type":"Object","object":{"describedObject":{"kind":"S","name":"s"},"metric":{"name":"o"},"target":{"type":"Value","value":"7"}}},
          {"type":"External","external":{"metric":{"name":"e"},"target":{"type":"Value","value":"9"}}},
          {"type":"ContainerResource","containerResource":{"name":"cpu","container":"c","target":{"type":"Utilization","averageUtilization":10}}},
          {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}],
        "behavior":{"scaleUp":{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[{"type":"Pods","value":4,"periodSeconds":15}]},
                    "scaleDown":{"selectPolicy":"Min","tolerance":"50m"}}},
        "status":{"currentReplicas":1,"desiredReplicas":2,
          "currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"100m","averageUtilization":33}}}],
          "conditions":[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R"}]}"#,
    );
    let mut autoscaler = original.clone();
    from_v2(&mut autoscaler);
    for (annotation, want) in [
        ("k", "v"),
        (
            "autoscaling.alpha.kubernetes.io/metrics",
            r#"[{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"1k","selector":{"matchLabels":{"a":"b"}}}},{"type":"Object","object":{"target":{"kind":"S","name":"s"},"metricName":"o","targetValue":"0","averageValue":"5"}},{"type":"Object","object":{"target":{"kind":"S","name":"s"},"metricName":"o","targetValue":"7"}},{"type":"External","external":{"metricName":"e","targetValue":"9"}},{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":10,"container":"c"}}]"#,
        ),
        (
            "autoscaling.alpha.kubernetes.io/behavior",
            r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min","Policies":null,"Tolerance":"50m"}}"#,
        ),
        (
            "autoscaling.alpha.kubernetes.io/current-metrics",
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":33,"currentAverageValue":"100m"}}]"#,
        ),
        (
            "autoscaling.alpha.kubernetes.io/conditions",
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R"}]"#,
        ),
    ] {
        assert_eq!(autoscaler.str_at(&["metadata", "annotations", annotation]), want);
    }
    assert_eq!(autoscaler.int_at(&["spec", "targetCPUUtilizationPercentage"]), Some(60));
    assert_eq!(autoscaler.int_at(&["status", "currentCPUUtilizationPercentage"]), Some(33));
    to_v2(&mut autoscaler);
    assert_eq!(json::to_string(&autoscaler), json::to_string(&original));
}

#[test]
fn drops_unreadable_annotations() {
    let (to_v2, _) = conversion("autoscaling", "v1", "HorizontalPodAutoscaler").expect("conversion");
    for (annotation, text) in [
        ("metrics", "nonsense"),
        ("metrics", r#"[{"type":1}]"#),
        ("metrics", r#"{"type":"Pods"}"#),
        ("metrics", "null"),
        ("behavior", "{}"),
        ("behavior", r#"{"ScaleUp":{"Policies":3}}"#),
    ] {
        let text = json::to_string(&Value::from(text));
        let members =
            format!(r#""metadata":{{"annotations":{{"autoscaling.alpha.kubernetes.io/{annotation}":{text}}}}}"#);
        let mut autoscaler = object("autoscaling", "v1", "HorizontalPodAutoscaler", &members);
        to_v2(&mut autoscaler);
        assert_eq!(autoscaler.at(&["metadata", "annotations"]), None, "{text}");
        assert_eq!(autoscaler.at(&["spec", "behavior"]), None, "{text}");
        let metrics = autoscaler.list_at(&["spec", "metrics"]);
        assert_eq!(metrics.len(), 1, "{text}");
        assert_eq!(metrics[0].int_at(&["resource", "target", "averageUtilization"]), Some(80), "{text}");
    }
    // Names match in any case.
    let members = r#""metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/behavior":"{\"scaleup\":{\"selectPolicy\":\"Min\"}}"}}"#;
    let mut autoscaler = object("autoscaling", "v1", "HorizontalPodAutoscaler", members);
    to_v2(&mut autoscaler);
    assert_eq!(autoscaler.str_at(&["spec", "behavior", "scaleUp", "selectPolicy"]), "Min");
}

#[test]
fn converts_resource_claims() {
    check(
        (
            "resource.k8s.io",
            "v1beta1",
            "ResourceClaim",
            r#""metadata":{"name":"c"},"spec":{"devices":{"requests":[
              {"name":"a","deviceClassName":"x","selectors":[{"cel":{"expression":"true"}}],"allocationMode":"ExactCount","count":1,"adminAccess":true,
               "tolerations":[{"key":"k","operator":"Exists"}],"capacity":{"requests":{"m":"1"}}},
              {"name":"b","firstAvailable":[{"name":"s","deviceClassName":"y"}]}]}}"#,
        ),
        (
            "resource.k8s.io",
            "v1",
            "ResourceClaim",
            r#""metadata":{"name":"c"},"spec":{"devices":{"requests":[
              {"name":"a","exactly":{"deviceClassName":"x","selectors":[{"cel":{"expression":"true"}}],"allocationMode":"ExactCount","count":1,"adminAccess":true,
               "tolerations":[{"key":"k","operator":"Exists"}],"capacity":{"requests":{"m":"1"}}}},
              {"name":"b","firstAvailable":[{"name":"s","deviceClassName":"y"}]}]}}"#,
        ),
    );
}

#[test]
fn converts_resource_slices() {
    check(
        (
            "resource.k8s.io",
            "v1beta1",
            "ResourceSlice",
            r#""metadata":{"name":"s"},"spec":{"driver":"d","pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n",
              "devices":[{"name":"g0","basic":{"attributes":{"m":{"int":1}},"capacity":{"mem":{"value":"1Gi"}},"allNodes":true}},{"name":"g1","basic":{}}]}"#,
        ),
        (
            "resource.k8s.io",
            "v1",
            "ResourceSlice",
            r#""metadata":{"name":"s"},"spec":{"driver":"d","pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n",
              "devices":[{"name":"g0","attributes":{"m":{"int":1}},"capacity":{"mem":{"value":"1Gi"}},"allNodes":true},{"name":"g1"}]}"#,
        ),
    );
}

/// Versions whose conversion only changes `apiVersion` have the same fields.
#[test]
fn renamed_versions_have_equal_fields() {
    let mut renamed = 0;
    for c in CONVERSIONS {
        let mut object = Value::default();
        (c.to)(&mut object);
        if object.as_object().is_some_and(|members| members.len() > 2) {
            continue;
        }
        let (group, stored) = object.str_at(&["apiVersion"]).split_once('/').expect("group");
        let from = tables::kind(c.group, c.version, c.kind).expect("served");
        let to = tables::kind(group, stored, c.kind).expect("stored");
        assert_alike(from, to, &mut Vec::new());
        renamed += 1;
    }
    assert!(renamed > 10, "{renamed}");
}

fn assert_alike(a: &Message, b: &Message, seen: &mut Vec<String>) {
    if seen.iter().any(|name| name == a.name.as_str()) {
        return;
    }
    seen.push(a.name.to_string());
    let names = |m: &Message| m.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(a), names(b), "{} {}", a.name, b.name);
    for (x, y) in a.fields.iter().zip(b.fields.iter()) {
        assert_eq!(x.presence, y.presence, "{}.{}", a.name, x.name);
        assert_eq!(std::mem::discriminant(&x.ty), std::mem::discriminant(&y.ty), "{}.{}", a.name, x.name);
        if let (Some(x), Some(y)) = (inner(&x.ty), inner(&y.ty)) {
            assert_alike(x, y, seen);
        }
    }
}

fn inner(ty: &Ty) -> Option<&Message> {
    match ty.element().or_else(|| ty.map_value()) {
        Some(element) => inner(element),
        None => ty.message(),
    }
}

/// Every version of a described resource is converted to the stored version.
#[test]
fn converts_every_described_version_to_storage_version() {
    let described = binnacle_resources::all();
    for d in described {
        let Some(storage) = &d.storage else { continue };
        let stored = (&storage.group, &storage.version, &storage.kind) == (&d.group, &d.version, &d.kind);
        let Some((to, from)) = conversion(&d.group, &d.version, &d.kind) else {
            assert!(stored, "{} {} {}", d.group, d.version, d.kind);
            continue;
        };
        assert!(!stored, "{} {} {}", d.group, d.version, d.kind);
        let api_version = |group: &str, version: &str| {
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
        };
        let mut object = Value::default();
        to(&mut object);
        assert_eq!(object.str_at(&["apiVersion"]), api_version(&storage.group, &storage.version));
        from(&mut object);
        assert_eq!(object.str_at(&["apiVersion"]), api_version(&d.group, &d.version));
        assert_eq!(object.str_at(&["kind"]), d.kind);
    }
}

/// Each version of a stored kind in the tables can be read.
#[test]
fn converts_every_removed_version() {
    let described: Vec<_> = binnacle_resources::all().collect();
    let mut seen = 0;
    for kind in tables::kinds() {
        // The kinds of `extensions` are in other groups now.
        let is_group = |group: &str| group == kind.group || kind.group == "extensions";
        let stored =
            described.iter().filter_map(|d| d.storage.as_ref()).find(|s| s.kind == kind.kind && is_group(&s.group));
        let Some(stored) = stored else { continue };
        let name = (kind.group, kind.version, kind.kind);
        if (&*stored.group, &*stored.version) == (kind.group, kind.version) {
            continue;
        }
        let Some((to, from)) = conversion(kind.group, kind.version, kind.kind) else { panic!("{name:?}") };
        let mut object = Value::default();
        to(&mut object);
        let written = format!("{}/{}", stored.group, stored.version);
        assert_eq!(object.str_at(&["apiVersion"]).trim_start_matches('/'), written.trim_start_matches('/'), "{name:?}");
        from(&mut object);
        assert_eq!(object.str_at(&["apiVersion"]), format!("{}/{}", kind.group, kind.version), "{name:?}");
        seen += 1;
    }
    assert!(seen > removed_versions::CONVERSIONS.len(), "{seen}");
}

/// The defaults of old versions of workloads, where they are not those of `apps/v1`.
#[test]
fn sets_defaults_of_old_workload_versions() {
    let template = r#""template":{"metadata":{"labels":{"a":"b"}}}"#;
    let labelled = r#""metadata":{"labels":{"a":"b"}}"#;
    let selector = r#""selector":{"matchLabels":{"a":"b"}}"#;
    let unlimited = r#""progressDeadlineSeconds":2147483647,"revisionHistoryLimit":2147483647"#;
    for (group, version, kind, given, want) in [
        (
            "extensions",
            "v1beta1",
            "Deployment",
            "{}",
            format!(
                r#"{{{unlimited},"strategy":{{"rollingUpdate":{{"maxSurge":1,"maxUnavailable":1}},"type":"RollingUpdate"}}}}"#
            ),
        ),
        (
            "extensions",
            "v1beta1",
            "Deployment",
            r#"{"strategy":{"type":"Recreate"}}"#,
            format!(r#"{{{unlimited},"strategy":{{"type":"Recreate"}}}}"#),
        ),
        ("apps", "v1beta1", "Deployment", "{}", r#"{"revisionHistoryLimit":2}"#.to_owned()),
        ("apps", "v1beta2", "Deployment", "{}", "{}".to_owned()),
        ("apps", "v1beta1", "StatefulSet", "{}", r#"{"updateStrategy":{"type":"OnDelete"}}"#.to_owned()),
        ("apps", "v1beta2", "StatefulSet", "{}", "{}".to_owned()),
        (
            "extensions",
            "v1beta1",
            "DaemonSet",
            r#"{"updateStrategy":{"type":"RollingUpdate"}}"#,
            r#"{"updateStrategy":{"type":"RollingUpdate"}}"#.to_owned(),
        ),
    ] {
        let (to, _) = conversion(group, version, kind).expect("conversion");
        let mut object = object(group, version, kind, &format!(r#""metadata":{{}},"spec":{given}"#));
        to(&mut object);
        let mut want = self::object("apps", "v1", kind, &format!(r#""metadata":{{}},"spec":{want}"#));
        let message = tables::kind("apps", "v1", kind).expect("kind");
        [&mut object, &mut want].into_iter().for_each(|object| canonicalize(object, message));
        let [got, want] = [&object, &want].map(|object| object.get("spec").map(json::to_string));
        assert_eq!(got, want, "{group} {kind} {given}");
    }
    for (group, kind) in
        [("extensions", "ReplicaSet"), ("extensions", "DaemonSet"), ("apps", "StatefulSet"), ("apps", "Deployment")]
    {
        let (to, _) = conversion(group, "v1beta1", kind).expect("conversion");
        let mut given = object(group, "v1beta1", kind, &format!(r#""metadata":{{}},"spec":{{{template}}}"#));
        to(&mut given);
        let want =
            json::parse(format!(r#"{{{labelled},"spec":{{{selector}}}}}"#).as_bytes(), &Limits::default()).unwrap();
        for path in [&["metadata", "labels"][..], &["spec", "selector"]] {
            assert_eq!(given.at(path), want.at(path), "{group} {kind}");
        }
    }
}

/// Fields of versions that are not served any more, and their form in the stored version.
#[test]
fn converts_fields_of_removed_versions() {
    const PDB: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let rollback = r#""metadata":{"annotations":{"deprecated.deployment.rollback.to":"3"}},"spec":{"progressDeadlineSeconds":5,"revisionHistoryLimit":6,"strategy":{"type":"Recreate"}}"#;
    let rollback_to = r#""spec":{"progressDeadlineSeconds":5,"revisionHistoryLimit":6,"strategy":{"type":"Recreate"},
        "rollbackTo":{"revision":3}}"#;
    let generation = r#""metadata":{"annotations":{"deprecated.daemonset.template.generation":"4"}},"spec":{"updateStrategy":{"type":"OnDelete"}}"#;
    let any = format!(r#""spec":{{"selector":{{"matchExpressions":[{{"key":"{PDB}","operator":"DoesNotExist"}}]}}}}"#);
    let none = format!(r#""spec":{{"selector":{{"matchExpressions":[{{"key":"{PDB}","operator":"Exists"}}]}}}}"#);
    let rbac = "rbac.authorization.k8s.io";
    for [group, version, stored, kind, old, new] in [
        ["apps", "v1beta1", "apps", "Deployment", rollback_to, rollback],
        ["extensions", "v1beta1", "apps", "Deployment", rollback_to, rollback],
        [
            "extensions",
            "v1beta1",
            "apps",
            "DaemonSet",
            r#""spec":{"updateStrategy":{"type":"OnDelete"},"templateGeneration":4}"#,
            generation,
        ],
        [
            "extensions",
            "v1beta1",
            "networking.k8s.io",
            "Ingress",
            r#""spec":{"backend":{"serviceName":"s","servicePort":80},"rules":[{"http":{"paths":[
                {"path":"/","pathType":"Prefix","backend":{"serviceName":"t","servicePort":"web"}}]}}]}"#,
            r#""spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}},"rules":[{"http":{"paths":[
                {"path":"/","pathType":"Prefix","backend":{"service":{"name":"t","port":{"name":"web"}}}}]}}]}"#,
        ],
        [
            "discovery.k8s.io",
            "v1beta1",
            "discovery.k8s.io",
            "EndpointSlice",
            r#""endpoints":[{"addresses":["192.0.2.1"],"nodeName":"n",
                "topology":{"kubernetes.io/hostname":"n","topology.kubernetes.io/zone":"z","rack":"r"}}]"#,
            r#""endpoints":[{"addresses":["192.0.2.1"],"nodeName":"n","zone":"z","deprecatedTopology":{"rack":"r"}}]"#,
        ],
        [
            "flowcontrol.apiserver.k8s.io",
            "v1beta2",
            "flowcontrol.apiserver.k8s.io",
            "PriorityLevelConfiguration",
            r#""spec":{"type":"Limited","limited":{"assuredConcurrencyShares":7}}"#,
            r#""spec":{"type":"Limited","limited":{"nominalConcurrencyShares":7}}"#,
        ],
        [
            "flowcontrol.apiserver.k8s.io",
            "v1beta3",
            "flowcontrol.apiserver.k8s.io",
            "PriorityLevelConfiguration",
            r#""metadata":{"annotations":{"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares":"","a":"b"}},
                "spec":{"type":"Limited","limited":{"nominalConcurrencyShares":0}}"#,
            r#""metadata":{"annotations":{"a":"b"}},"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":0}}"#,
        ],
        [
            "node.k8s.io",
            "v1alpha1",
            "node.k8s.io",
            "RuntimeClass",
            r#""spec":{"runtimeHandler":"h","scheduling":{"nodeSelector":{"a":"b"}}}"#,
            r#""handler":"h","scheduling":{"nodeSelector":{"a":"b"}}"#,
        ],
        ["policy", "v1beta1", "policy", "PodDisruptionBudget", r#""spec":{"selector":{}}"#, none.as_str()],
        ["policy", "v1beta1", "policy", "PodDisruptionBudget", any.as_str(), r#""spec":{"selector":{}}"#],
        [
            rbac,
            "v1alpha1",
            rbac,
            "RoleBinding",
            r#""subjects":[{"kind":"User","apiVersion":"rbac.authorization.k8s.io/v1alpha1","name":"u"}]"#,
            r#""subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u"}]"#,
        ],
    ] {
        check((group, version, kind, old), (stored, "v1", kind, new));
    }
}

/// Absent fields of a removed version get the defaults of that version.
#[test]
fn sets_defaults_of_removed_versions() {
    let group = "admissionregistration.k8s.io";
    for (kind, more) in
        [("ValidatingWebhookConfiguration", ""), ("MutatingWebhookConfiguration", r#","reinvocationPolicy":"Never""#)]
    {
        let (to, _) = conversion(group, "v1beta1", kind).expect("conversion");
        let mut old = object(group, "v1beta1", kind, r#""webhooks":[{"name":"a.b.c","clientConfig":{}}]"#);
        to(&mut old);
        let new = format!(
            r#""webhooks":[{{"name":"a.b.c","clientConfig":{{}},"failurePolicy":"Ignore","matchPolicy":"Exact","sideEffects":"Unknown",
            "timeoutSeconds":30,"admissionReviewVersions":["v1beta1"]{more}}}]"#
        );
        assert_eq!(json::to_string(&old), json::to_string(&object(group, "v1", kind, &new)));
    }
    let rbac = "rbac.authorization.k8s.io";
    let (to, _) = conversion(rbac, "v1alpha1", "ClusterRoleBinding").expect("conversion");
    let mut old = object(rbac, "v1alpha1", "ClusterRoleBinding", r#""subjects":[{"kind":"User","name":"*"}]"#);
    to(&mut old);
    let new = r#""subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:authenticated"}]"#;
    assert_eq!(json::to_string(&old), json::to_string(&object(rbac, "v1", "ClusterRoleBinding", new)));
    let level = "flowcontrol.apiserver.k8s.io";
    for version in ["v1beta1", "v1beta2", "v1beta3"] {
        let (to, _) = conversion(level, version, "PriorityLevelConfiguration").expect("conversion");
        let mut old = object(level, version, "PriorityLevelConfiguration", r#""spec":{"type":"Limited","limited":{}}"#);
        to(&mut old);
        assert_eq!(old.int_at(&["spec", "limited", "nominalConcurrencyShares"]), Some(30), "{version}");
    }
}
