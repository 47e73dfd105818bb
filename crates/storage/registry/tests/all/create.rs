//! Tests of create: names, system fields, versions, dry runs.

use binnacle_registry::Context;
use serde_json::json;

use crate::support::Want::{self, Fails, Has};
use crate::support::{Cluster, check, context, dry_run};

const CONFIG_MAPS: &str = "/v1/configmaps";

async fn check_create(cluster: &Cluster, about: &str, context: &Context, path: &str, manifest: &str, want: &Want) {
    let got = cluster.create(context, path, manifest).await;
    check(about, &got, want);
    // The object of a failed create or a dry run is not stored.
    if let Ok(object) = &got {
        let stored = cluster.get(path, object.str_at(&["metadata", "name"])).await;
        assert_eq!(stored.is_ok(), !context.dry_run, "{about}");
    }
}

/// A few kinds do not require a DNS subdomain, or have a variation of the rule.
#[tokio::test]
async fn applies_name_rules_of_kind() {
    const BUDGETS: &str = "policy/v1/poddisruptionbudgets";
    const CONTROLLERS: &str = "/v1/replicationcontrollers";
    const CLASSES: &str = "resource.k8s.io/v1/deviceclasses";
    let cluster = Cluster::new();
    let long = "a".repeat(254);
    let budget = |metadata: &str| format!("{{metadata: {metadata}, spec: {{minAvailable: 1}}}}");
    let controller = |metadata: &str| {
        let template = "{metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}";
        format!("{{metadata: {metadata}, spec: {{selector: {{a: b}}, template: {template}}}}}")
    };
    let event = |name: &str| format!("{{metadata: {{name: {name}}}, involvedObject: {{namespace: default}}}}");
    let newer = |name: &str| {
        format!(
            "{{metadata: {{name: {name}}}, regarding: {{namespace: default}}, eventTime: 2026-01-01T00:00:00.000000Z, \
             type: Normal, action: a, reason: r, reportingController: a.test/b, reportingInstance: i}}"
        )
    };
    let named = |name: &str| Has(json!({"metadata": {"name": name}}));
    for (about, path, manifest, want) in [
        ("a budget of mixed case", BUDGETS, budget("{name: mixedCase-budget}"), named("mixedCase-budget")),
        ("a budget with an underscore", BUDGETS, budget("{name: a_b}"), named("a_b")),
        ("a long budget", BUDGETS, budget(&format!("{{name: {long}}}")), named(&long)),
        ("a generated budget", BUDGETS, budget("{generateName: My_}"), named("My_?????")),
        (
            "a budget that is no part of a path",
            BUDGETS,
            budget("{name: a%b}"),
            Fails(
                422,
                r#"PodDisruptionBudget.policy "a%b" is invalid: metadata.name: Invalid value: "a%b": may not contain '%'"#,
            ),
        ),
        (
            "a prefix that is no part of a path",
            BUDGETS,
            budget("{generateName: a/}"),
            Fails(
                422,
                r#"PodDisruptionBudget.policy "a/?????" is invalid: [metadata.generateName: Invalid value: "a/": may not contain '/', metadata.name: Invalid value: "a/?????": may not contain '/']"#,
            ),
        ),
        ("an event of a role", "/v1/events", event("\"system:Role.17\""), named("system:Role.17")),
        (
            "such an event in the newer version",
            "events.k8s.io/v1/events",
            newer("\"system:Role.17\""),
            Fails(
                422,
                r#"Event "system:Role.17" is invalid: metadata.name: Invalid value: "system:Role.17": a lowercase RFC 1123 subdomain *"#,
            ),
        ),
        (
            "a long controller",
            CONTROLLERS,
            controller(&format!("{{name: {long}}}")),
            Fails(
                422,
                r#"ReplicationController "a*a" is invalid: metadata.name: Invalid value: "a*a": must be no more than 253 bytes"#,
            ),
        ),
        (
            "a generated controller",
            CONTROLLERS,
            controller("{generateName: My_}"),
            Fails(
                422,
                r#"ReplicationController "My_?????" is invalid: metadata.name: Invalid value: "My_?????": a lowercase RFC 1123 subdomain *"#,
            ),
        ),
        (
            "a long class",
            CLASSES,
            format!("{{metadata: {{name: {long}}}, spec: {{}}}}"),
            Fails(
                422,
                r#"DeviceClass.resource.k8s.io "a*a" is invalid: metadata.name: Invalid value: "a*a": must be no more than 253 bytes"#,
            ),
        ),
    ] {
        check_create(&cluster, about, &context(), path, &manifest, &want).await;
    }
}

#[tokio::test]
async fn validates_name_and_namespace() {
    let cluster = Cluster::new();
    let long = format!("metadata: {{generateName: {}}}", "a".repeat(70));
    let cut = format!("{}?????", "a".repeat(58));
    for (about, manifest, want) in [
        ("a new name", "metadata: {name: a}", Has(json!({"metadata": {"name": "a", "namespace": "default"}}))),
        ("an existing name", "metadata: {name: a}", Fails(409, r#"configmaps "a" already exists"#)),
        (
            "a generated name",
            "metadata: {generateName: a-}",
            Has(json!({"metadata": {"name": "a-?????", "generateName": "a-"}})),
        ),
        ("a prefix that is too long", &long, Has(json!({"metadata": {"name": cut}}))),
        (
            "a name and a prefix",
            "metadata: {generateName: a-, name: b}",
            Has(json!({"metadata": {"name": "b", "generateName": "a-"}})),
        ),
        (
            "no name",
            "metadata: {}",
            Fails(422, r#"ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required"#),
        ),
        (
            "a name of capitals",
            "metadata: {name: A}",
            Fails(
                422,
                r#"ConfigMap "A" is invalid: metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of *"#,
            ),
        ),
        (
            "the namespace of the request",
            "metadata: {name: c, namespace: default}",
            Has(json!({"metadata": {"name": "c"}})),
        ),
        (
            "another namespace",
            "metadata: {name: d, namespace: other}",
            Fails(400, "the namespace of the provided object does not match the namespace sent on the request"),
        ),
    ] {
        check_create(&cluster, about, &context(), CONFIG_MAPS, manifest, &want).await;
    }
}

#[tokio::test]
async fn sets_system_fields_on_create() {
    let cluster = Cluster::new();
    let uid = "????????-????-????-????-????????????";
    for (about, path, manifest, want) in [
        (
            "the server's own",
            CONFIG_MAPS,
            "metadata: {name: a, uid: mine, creationTimestamp: '2020-01-01T00:00:00Z', selfLink: x}",
            Has(
                json!({"metadata": {"uid": uid, "creationTimestamp": "202?-*", "selfLink": null, "resourceVersion": "*"}}),
            ),
        ),
        (
            "a deletion cannot be sent",
            CONFIG_MAPS,
            "metadata: {name: b, deletionTimestamp: '2020-01-01T00:00:00Z', deletionGracePeriodSeconds: 5}",
            Has(json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}})),
        ),
        (
            "a kind without generation",
            CONFIG_MAPS,
            "metadata: {name: c}",
            Has(json!({"metadata": {"generation": null}})),
        ),
        (
            "generation and status of a kind that has both",
            "batch/v1/cronjobs",
            "{metadata: {name: a, generation: 7}, status: {lastScheduleTime: '2020-01-01T00:00:00Z'}, spec: {schedule: '* * * * *', \
             jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}}}",
            Has(
                json!({"metadata": {"generation": 1}, "status": {"lastScheduleTime": null}, "spec": {"suspend": false}}),
            ),
        ),
        (
            "a version",
            CONFIG_MAPS,
            "metadata: {name: d, resourceVersion: '5'}",
            Fails(500, "resourceVersion should not be set on objects to be created"),
        ),
        (
            "the version 0",
            CONFIG_MAPS,
            "metadata: {name: e, resourceVersion: '0'}",
            Has(json!({"metadata": {"resourceVersion": "*"}})),
        ),
        (
            "finalizers are kept",
            CONFIG_MAPS,
            "metadata: {name: f, finalizers: [example.com/x]}",
            Has(json!({"metadata": {"finalizers": ["example.com/x"]}})),
        ),
        (
            "the rules of the kind",
            "coordination.k8s.io/v1/leases",
            "{metadata: {name: a}, spec: {leaseDurationSeconds: 0}}",
            Fails(
                422,
                r#"Lease.coordination.k8s.io "a" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"#,
            ),
        ),
    ] {
        check_create(&cluster, about, &context(), path, manifest, &want).await;
    }
}

#[tokio::test]
async fn dry_run_writes_nothing() {
    let cluster = Cluster::new();
    cluster.create(&context(), CONFIG_MAPS, "metadata: {name: there}").await.unwrap();
    for (about, manifest, want) in [
        (
            "an object",
            "metadata: {name: a}",
            Has(json!({"metadata": {"name": "a", "uid": "*", "resourceVersion": null}})),
        ),
        ("an unused name", "metadata: {name: a}", Has(json!({"metadata": {"name": "a"}}))),
        ("a generated name", "metadata: {generateName: a-}", Has(json!({"metadata": {"name": "a-?????"}}))),
        ("an existing name", "metadata: {name: there}", Fails(409, r#"configmaps "there" already exists"#)),
        (
            "a version is ignored",
            "metadata: {name: b, resourceVersion: '5'}",
            Has(json!({"metadata": {"resourceVersion": "5"}})),
        ),
        ("an invalid name", "metadata: {name: B}", Fails(422, r#"ConfigMap "B" is invalid: *"#)),
    ] {
        let context = dry_run();
        if about == "one that exists" {
            let got = cluster.create(&context, CONFIG_MAPS, manifest).await;
            check(about, &got, &want);
            continue;
        }
        check_create(&cluster, about, &context, CONFIG_MAPS, manifest, &want).await;
    }
}
