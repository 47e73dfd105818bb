//! Tests of delete: preconditions, finalizers, propagation, grace periods.

use binnacle_registry::{DeleteOptions, DeleteOutcome, UpdateOptions};
use binnacle_schema::{Limits, Value, decode};
use serde_json::json;
use tokio::runtime::Handle;

use crate::support::Want::{self, Fails, Has};
use crate::support::{Cluster, check, context, dry_run, to_json};

const CONFIG_MAPS: &str = "/v1/configmaps";
const PODS: &str = "/v1/pods";
const NAMESPACES: &str = "/v1/namespaces";
const CLASSES: &str = "scheduling.k8s.io/v1/priorityclasses";

/// What a delete does to the object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Gone,
    Pending,
}

/// Creates an object named `a` and deletes it.
async fn check_delete(
    about: &str,
    path: &str,
    manifest: &str,
    options: &DeleteOptions,
    end: Outcome,
    want: &Want,
) -> Cluster {
    let cluster = Cluster::new();
    cluster.create(&context(), path, manifest).await.unwrap();
    let got = cluster.delete(&context(), path, "a", options).await;
    let got = got.map(|deleted| match deleted {
        DeleteOutcome::Gone(stored) | DeleteOutcome::WouldBeGone(stored) => (Outcome::Gone, stored.object),
        DeleteOutcome::Pending(stored) => (Outcome::Pending, stored.object),
    });
    if let Ok((got, _)) = &got {
        assert_eq!(*got, end, "{about}");
        assert_eq!(cluster.get(path, "a").await.is_err(), end == Outcome::Gone, "{about}");
    }
    check(about, &got.map(|(_, object)| object), want);
    cluster
}

#[tokio::test]
async fn checks_preconditions_and_sets_propagation_finalizers() {
    let plain = "metadata: {name: a}";
    let held = "metadata: {name: a, finalizers: [example.com/x]}";
    let policy = |policy: &str| DeleteOptions { propagation_policy: Some(policy.into()), ..DeleteOptions::default() };
    let deleting = |finalizers: &[&str]| {
        Has(
            json!({"metadata": {"deletionTimestamp": "202?-*", "deletionGracePeriodSeconds": 0, "finalizers": finalizers}}),
        )
    };
    for (about, manifest, options, end, want) in [
        ("no finalizers", plain, DeleteOptions::default(), Outcome::Gone, Has(json!({"metadata": {"name": "a"}}))),
        (
            "another uid",
            plain,
            DeleteOptions { uid: Some("other".into()), ..DeleteOptions::default() },
            Outcome::Pending,
            Fails(
                409,
                r#"Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in record (????????-????-????-????-????????????). The object might have been deleted and then recreated"#,
            ),
        ),
        (
            "another version",
            plain,
            DeleteOptions { resource_version: Some("1".into()), ..DeleteOptions::default() },
            Outcome::Pending,
            Fails(
                409,
                r#"Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (*). The object might have been modified"#,
            ),
        ),
        ("a finalizer", held, DeleteOptions::default(), Outcome::Pending, deleting(&["example.com/x"])),
        ("in the background", plain, policy("Background"), Outcome::Gone, Has(json!({}))),
        ("orphans", plain, policy("Orphan"), Outcome::Pending, deleting(&["orphan"])),
        ("in the foreground", plain, policy("Foreground"), Outcome::Pending, deleting(&["foregroundDeletion"])),
        ("orphans and a finalizer", held, policy("Orphan"), Outcome::Pending, deleting(&["example.com/x", "orphan"])),
    ] {
        check_delete(about, CONFIG_MAPS, manifest, &options, end, &want).await;
    }
}

#[tokio::test]
async fn deletes_pods_gracefully() {
    let scheduled = "{metadata: {name: a}, spec: {nodeName: node-1, containers: [{name: a, image: a}]}}";
    let waiting = "{metadata: {name: a}, spec: {containers: [{name: a, image: a}]}}";
    let grace = |seconds| DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() };
    let pending =
        |seconds: i64| Has(json!({"metadata": {"deletionTimestamp": "*", "deletionGracePeriodSeconds": seconds}}));
    for (about, manifest, options, end, want) in [
        ("the period of the spec", scheduled, DeleteOptions::default(), Outcome::Pending, pending(30)),
        ("the period of the request", scheduled, grace(5), Outcome::Pending, pending(5)),
        ("a period of zero", scheduled, grace(0), Outcome::Gone, Has(json!({}))),
        ("an unscheduled pod", waiting, DeleteOptions::default(), Outcome::Gone, Has(json!({}))),
    ] {
        check_delete(about, PODS, manifest, &options, end, &want).await;
    }
}

/// Deletes a pod on a node several times, with these grace periods; `-` is none.
async fn check_grace_periods(periods: &str, want: &str) {
    let cluster = Cluster::new();
    let manifest = "{metadata: {name: a}, spec: {nodeName: node-1, containers: [{name: a, image: a}]}}";
    cluster.create(&context(), PODS, manifest).await.unwrap();
    let mut got = Vec::new();
    for period in periods.split(' ') {
        let options = DeleteOptions { grace_period_seconds: period.parse().ok(), ..DeleteOptions::default() };
        got.push(match cluster.delete(&context(), PODS, "a", &options).await {
            Ok(DeleteOutcome::Pending(stored)) => {
                let period = stored.object.int_at(&["metadata", "deletionGracePeriodSeconds"]);
                period.map_or("unset".to_owned(), |period| period.to_string())
            }
            Ok(_) => "gone".to_owned(),
            Err(status) => status.code().to_string(),
        });
    }
    assert_eq!(got.join(" "), want, "{periods}");
}

#[tokio::test]
async fn later_deletes_only_shorten_the_grace_period() {
    check_grace_periods("- - -", "30 30 30").await;
    check_grace_periods("20 60 - 20", "20 20 20 20").await;
    check_grace_periods("- 20 10 15", "30 20 10 10").await;
    check_grace_periods("- 0 -", "30 gone 404").await;
    // A negative period is a second.
    check_grace_periods("-5", "1").await;
    check_grace_periods("60 -1 0", "60 1 gone").await;
}

/// A period that has passed is at least a second for the kubelet, which ends the deletion.
#[tokio::test]
async fn shortened_grace_period_does_not_end_in_the_past() {
    let cluster = Cluster::new();
    let manifest = "{metadata: {name: a}, spec: {nodeName: node-1, containers: [{name: a, image: a}]}}";
    cluster.create(&context(), PODS, manifest).await.unwrap();
    let grace = |seconds| DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() };
    let first = cluster.delete(&context(), PODS, "a", &grace(60)).await;
    assert!(matches!(first, Ok(DeleteOutcome::Pending(_))), "{first:?}");
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    let now = context().now_seconds();
    let Ok(DeleteOutcome::Pending(stored)) = cluster.delete(&context(), PODS, "a", &grace(2)).await else {
        panic!("the kubelet ends the deletion");
    };
    assert_eq!(stored.object.int_at(&["metadata", "deletionGracePeriodSeconds"]), Some(1));
    let at = binnacle_meta::Time::parse(stored.object.str_at(&["metadata", "deletionTimestamp"])).unwrap();
    assert!(at.unix_seconds() >= now, "{at:?} is before {now}");
}

#[tokio::test]
async fn propagation_depends_on_options_finalizers_and_kind() {
    let policy = |policy: &str| DeleteOptions { propagation_policy: Some(policy.into()), ..DeleteOptions::default() };
    let orphan = |orphan| DeleteOptions { orphan_dependents: Some(orphan), ..DeleteOptions::default() };
    let map = |finalizers: &str| (CONFIG_MAPS, format!("metadata: {{name: a, finalizers: [{finalizers}]}}"));
    let template = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
    let job = || ("batch/v1/jobs", format!("{{metadata: {{name: a}}, spec: {{{template}}}}}"));
    let event = "{metadata: {name: a}, involvedObject: {namespace: default}}".to_owned();
    for ((path, manifest), options, want) in [
        (map(""), orphan(true), Some("orphan")),
        (map(""), orphan(false), None),
        // Finalizers that the client has set count unless the options have a policy.
        (map("orphan"), DeleteOptions::default(), Some("orphan")),
        (map("foregroundDeletion"), DeleteOptions::default(), Some("foregroundDeletion")),
        (map("foregroundDeletion"), policy("Orphan"), Some("orphan")),
        (map("orphan"), policy("Foreground"), Some("foregroundDeletion")),
        (map("orphan"), policy("Background"), None),
        (map("orphan"), orphan(false), None),
        (map("a.b/c, orphan"), policy("Background"), Some("a.b/c")),
        // They are compared as sets.
        (map("orphan, orphan"), policy("Orphan"), Some("orphan orphan")),
        // The default of jobs.
        (job(), DeleteOptions::default(), Some("orphan")),
        (job(), policy("Background"), None),
        (job(), orphan(false), None),
        // Events are not collected.
        (("/v1/events", event), policy("Orphan"), None),
    ] {
        let cluster = Cluster::new();
        cluster.create(&context(), path, &manifest).await.unwrap();
        let got = match cluster.delete(&context(), path, "a", &options).await.unwrap() {
            DeleteOutcome::Pending(stored) => {
                let finalizers = stored.object.list_at(&["metadata", "finalizers"]).iter();
                Some(finalizers.filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
            }
            DeleteOutcome::Gone(_) | DeleteOutcome::WouldBeGone(_) => None,
        };
        assert_eq!(got.as_deref(), want, "{manifest} {options:?}");
    }
}

#[tokio::test]
async fn removing_last_finalizer_deletes_object() {
    let manifest = "metadata: {name: a, finalizers: [example.com/x, example.com/y]}";
    let cluster =
        check_delete("held", CONFIG_MAPS, manifest, &DeleteOptions::default(), Outcome::Pending, &Has(json!({}))).await;
    for (about, finalizers, want, there) in [
        (
            "none is added to an object that is going",
            json!(["example.com/x", "example.com/y", "example.com/z"]),
            Fails(
                422,
                r#"ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/z"}"#,
            ),
            true,
        ),
        (
            "one finalizer removed",
            json!(["example.com/y"]),
            Has(json!({"metadata": {"finalizers": ["example.com/y"]}})),
            true,
        ),
        ("all finalizers removed", json!([]), Has(json!({"metadata": {"finalizers": null}})), false),
    ] {
        let change = json!({"metadata": {"finalizers": finalizers}});
        let got = cluster.update(&context(), CONFIG_MAPS, "a", &UpdateOptions::default(), &change).await;
        check(about, &got, &want);
        assert_eq!(cluster.get(CONFIG_MAPS, "a").await.is_ok(), there, "{about}");
    }
}

/// Removes the last finalizer of an object while another request writes it.
#[tokio::test(flavor = "multi_thread")]
async fn removing_last_finalizer_spares_changed_object() {
    let manifest = "metadata: {name: a, finalizers: [example.com/x, example.com/y]}";
    let none = json!({"metadata": {"finalizers": null}});
    let modified = r#"Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again"#;
    let changed = json!({"data": {"a": "b"}, "metadata": {"finalizers": ["example.com/y"]}});
    for (about, versioned, concurrent_change, want, left) in [
        ("a changed object stays", true, &changed, Fails(409, modified), Some(json!({"data": {"a": "b"}}))),
        ("without a version the newest object is updated", false, &changed, Has(json!({"data": {"a": "b"}})), None),
        ("another request was faster", true, &none, Has(json!({"metadata": {"finalizers": null}})), None),
    ] {
        let cluster =
            check_delete("held", CONFIG_MAPS, manifest, &DeleteOptions::default(), Outcome::Pending, &Has(json!({})))
                .await;
        let mut versions = Vec::new();
        let mut release = |old: Option<&Value>| {
            let mut object = to_json(old.unwrap());
            versions.push(object["metadata"]["resourceVersion"].clone());
            if versions.len() == 1 {
                let (context, options) = (context(), UpdateOptions::default());
                let written = cluster.update(&context, CONFIG_MAPS, "a", &options, concurrent_change);
                tokio::task::block_in_place(|| Handle::current().block_on(written)).unwrap();
            }
            object["metadata"]["finalizers"].take();
            object["metadata"]["resourceVersion"] = if versioned { versions[0].clone() } else { json!(null) };
            let message = &cluster.resource(CONFIG_MAPS).message;
            Ok(decode::yaml(object.to_string().as_bytes(), message, &Limits::default()).unwrap().value.into())
        };
        let resource = cluster.resource(CONFIG_MAPS);
        let got = resource.update(&context(), "a", &UpdateOptions::default(), &mut release).await;
        check(about, &got.map(|updated| updated.stored.object), &want);
        let found = cluster.get(CONFIG_MAPS, "a").await;
        match left {
            Some(left) => check(about, &found, &Has(left)),
            None => assert_eq!(found.err().map(|status| status.code()), Some(404), "{about}"),
        }
    }
}

#[tokio::test]
async fn dry_run_deletes_nothing() {
    let cluster = Cluster::new();
    cluster.create(&context(), CONFIG_MAPS, "metadata: {name: a}").await.unwrap();
    let deleted = cluster.delete(&dry_run(), CONFIG_MAPS, "a", &DeleteOptions::default()).await;
    assert!(matches!(deleted, Ok(DeleteOutcome::Gone(_))), "{deleted:?}");
    check("it is there", &cluster.get(CONFIG_MAPS, "a").await, &Has(json!({"metadata": {"deletionTimestamp": null}})));
    let missing = cluster.delete(&context(), CONFIG_MAPS, "b", &DeleteOptions::default()).await;
    assert_eq!(
        missing.map(drop).map_err(|status| status.message().to_owned()),
        Err("configmaps \"b\" not found".to_owned())
    );
}

/// kube-apiserver answers such a dry run with an empty object instead of a Status.
#[tokio::test]
async fn dry_run_that_removes_the_last_finalizer_returns_an_empty_object() {
    let cluster = Cluster::new();
    let manifest = "metadata: {name: a, finalizers: [foregroundDeletion]}";
    cluster.create(&context(), CONFIG_MAPS, manifest).await.unwrap();
    let background = DeleteOptions { propagation_policy: Some("Background".into()), ..DeleteOptions::default() };
    match cluster.delete(&dry_run(), CONFIG_MAPS, "a", &background).await {
        Ok(DeleteOutcome::WouldBeGone(stored)) => {
            assert_eq!(to_json(&stored.object), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
        }
        other => panic!("{other:?}"),
    }
    let kept = json!({"metadata": {"deletionTimestamp": null, "finalizers": ["foregroundDeletion"]}});
    check("it is there", &cluster.get(CONFIG_MAPS, "a").await, &Has(kept));
}

#[test]
fn rejects_contradictory_options() {
    let options = |policy: Option<&str>, orphan, dry_run: &[&str]| DeleteOptions {
        propagation_policy: policy.map(Into::into),
        orphan_dependents: orphan,
        dry_run: dry_run.iter().map(ToString::to_string).collect(),
        ..DeleteOptions::default()
    };
    for (options, want) in [
        (options(Some("Orphan"), None, &["All"]), None),
        (options(None, Some(true), &[]), None),
        (
            options(Some("Orphan"), Some(true), &[]),
            Some(
                r#"propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
            ),
        ),
        (
            options(Some("Other"), None, &[]),
            Some(
                r#"propagationPolicy: Unsupported value: "Other": supported values: "Foreground", "Background", "Orphan", "nil""#,
            ),
        ),
        (options(None, None, &["Some"]), Some(r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#)),
    ] {
        let got = options.validate().err().map(|status| status.message().to_owned());
        let want = want.map(|want| format!("DeleteOptions.meta.k8s.io \"\" is invalid: {want}"));
        assert_eq!(got, want, "{options:?}");
    }
}

/// kube-apiserver's storage has special rules for some kinds.
#[tokio::test]
async fn applies_delete_rules_of_kind() {
    let cluster = Cluster::new();
    let delete = async |context, path, name, options: &DeleteOptions| {
        cluster.delete(&context, path, name, options).await.map(|deleted| match deleted {
            DeleteOutcome::Gone(stored) | DeleteOutcome::WouldBeGone(stored) | DeleteOutcome::Pending(stored) => {
                stored.object
            }
        })
    };
    let guarded = Fails(
        403,
        r#"priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted"#,
    );
    let plain = DeleteOptions::default();
    check("an absent class", &delete(context(), CLASSES, "system-node-critical", &plain).await, &guarded);
    let system = "{metadata: {name: system-node-critical}, value: 2000001000}";
    cluster.create(&context(), CLASSES, system).await.unwrap();
    check("a stored one", &delete(context(), CLASSES, "system-node-critical", &plain).await, &guarded);
    check("a dry run", &delete(dry_run(), CLASSES, "system-node-critical", &plain).await, &guarded);
    check("its object", &cluster.get(CLASSES, "system-node-critical").await, &Has(json!({"value": 2_000_001_000})));

    let (uid, version) = (Some("other".into()), Some("1".into()));
    for (about, options, want) in [
        (
            "another uid",
            DeleteOptions { uid, ..DeleteOptions::default() },
            Fails(
                409,
                r#"Operation cannot be fulfilled on namespaces "a": Precondition failed: UID in precondition: other, UID in object meta: ????????-????-????-????-????????????"#,
            ),
        ),
        (
            "another version",
            DeleteOptions { resource_version: version, ..DeleteOptions::default() },
            Fails(
                409,
                r#"Operation cannot be fulfilled on namespaces "a": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: *"#,
            ),
        ),
        (
            "for namespaces alone, dependents that are not orphans are deleted in the foreground",
            DeleteOptions { orphan_dependents: Some(false), ..DeleteOptions::default() },
            Has(json!({"metadata": {"finalizers": ["foregroundDeletion"]}, "status": {"phase": "Terminating"}})),
        ),
    ] {
        check_delete(about, NAMESPACES, "metadata: {name: a}", &options, Outcome::Pending, &want).await;
    }
    let options = DeleteOptions { propagation_policy: Some("Other".into()), ..DeleteOptions::default() };
    let unsupported = Fails(
        422,
        r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Other": supported values: "Foreground", "Background", "Orphan", "nil""#,
    );
    check_delete("options", CONFIG_MAPS, "metadata: {name: a}", &options, Outcome::Pending, &unsupported).await;
}
