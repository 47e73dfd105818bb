//! Tests of update: immutable fields, generation, versions, subresources.

use binnacle_registry::UpdateOptions;
use serde_json::{Value as Json, json};

use crate::support::Want::{self, Fails, Has};
use crate::support::{Cluster, check, context, dry_run, to_json};

const DEPLOYMENTS: &str = "apps/v1/deployments";
const CONFIG_MAPS: &str = "/v1/configmaps";
const DEPLOYMENT: &str = "{metadata: {name: a, labels: {l: old}}, spec: {selector: {matchLabels: {a: b}}, \
    template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}";

/// Creates an object named `a`, changes it, and removes it.
async fn check_update(about: &str, path: &str, manifest: &str, options: &UpdateOptions, change: &Json, want: &Want) {
    let cluster = Cluster::new();
    cluster.create(&context(), path, manifest).await.unwrap();
    let got = cluster.update(&context(), path, "a", options, change).await;
    check(about, &got, want);
}

#[tokio::test]
async fn increments_generation_only_with_spec() {
    let main = UpdateOptions::default();
    let status = UpdateOptions { subresource: "status".into(), ..UpdateOptions::default() };
    for (about, options, change, want) in [
        (
            "the spec",
            &main,
            json!({"spec": {"replicas": 3}}),
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}}),
        ),
        (
            "labels",
            &main,
            json!({"metadata": {"labels": {"l": "new"}}}),
            json!({"metadata": {"generation": 1, "labels": {"l": "new"}}}),
        ),
        (
            "annotations",
            &main,
            json!({"metadata": {"annotations": {"l": "new"}}}),
            json!({"metadata": {"generation": 2}}),
        ),
        (
            "a generation of one's own",
            &main,
            json!({"metadata": {"generation": 9}}),
            json!({"metadata": {"generation": 1}}),
        ),
        ("status with the spec", &main, json!({"status": {"replicas": 5}}), json!({"status": {"replicas": null}})),
        (
            "status by its subresource",
            &status,
            json!({"status": {"replicas": 5}, "spec": {"replicas": 9}, "metadata": {"labels": {"l": "new"}}}),
            json!({"status": {"replicas": 5}, "spec": {"replicas": 1}, "metadata": {"generation": 1, "labels": {"l": "old"}}}),
        ),
    ] {
        check_update(about, DEPLOYMENTS, DEPLOYMENT, options, &change, &Has(want)).await;
    }
}

#[tokio::test]
async fn rejects_changes_of_immutable_fields() {
    let uid = |uid: &str| UpdateOptions { uid: Some(uid.into()), ..UpdateOptions::default() };
    let main = UpdateOptions::default();
    for (about, options, change, want) in [
        (
            "an older version",
            &main,
            json!({"metadata": {"resourceVersion": "1"}}),
            Fails(
                409,
                r#"Operation cannot be fulfilled on deployments.apps "a": the object has been modified; please apply your changes to the latest version and try again"#,
            ),
        ),
        ("no version", &main, json!({"metadata": {"resourceVersion": null}}), Has(json!({"metadata": {"name": "a"}}))),
        (
            "the version 0",
            &main,
            json!({"metadata": {"resourceVersion": "0"}}),
            Has(json!({"metadata": {"name": "a"}})),
        ),
        (
            "it is a number",
            &main,
            json!({"metadata": {"resourceVersion": "00"}}),
            Has(json!({"metadata": {"name": "a"}})),
        ),
        (
            "no number",
            &main,
            json!({"metadata": {"resourceVersion": "1.5"}}),
            Fails(500, r#"strconv.ParseUint: parsing "1.5": invalid syntax"#),
        ),
        (
            "another uid in the request",
            &uid("other"),
            json!({}),
            Fails(
                409,
                r#"Operation cannot be fulfilled on deployments.apps "a": StorageError: invalid object, Code: 4, Key: /registry/deployments/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: ????????-????-????-????-????????????"#,
            ),
        ),
        (
            "the uid",
            &main,
            json!({"metadata": {"uid": "other"}}),
            Fails(422, r#"Deployment.apps "a" is invalid: metadata.uid: Invalid value: "other": field is immutable"#),
        ),
        (
            "when it was created",
            &main,
            json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}),
            Has(json!({"metadata": {"creationTimestamp": "202?-*"}})),
        ),
        (
            "a deletion",
            &main,
            json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
            Fails(
                422,
                r#"Deployment.apps "a" is invalid: metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable"#,
            ),
        ),
        (
            "the name",
            &main,
            json!({"metadata": {"name": "b"}}),
            Fails(422, r#"Deployment.apps "b" is invalid: metadata.name: Invalid value: "b": field is immutable"#),
        ),
        (
            "the selector",
            &main,
            json!({"spec": {"selector": {"matchLabels": {"a": "b", "c": "d"}}, "template": {"metadata": {"labels": {"c": "d"}}}}}),
            Fails(422, r#"Deployment.apps "a" is invalid: spec.selector: Invalid value: *: field is immutable"#),
        ),
    ] {
        check_update(about, DEPLOYMENTS, DEPLOYMENT, options, &change, &want).await;
    }
}

/// A dry run ends before the storage adds the root to the key.
#[tokio::test]
async fn dry_run_conflict_has_key_without_root() {
    let cluster = Cluster::new();
    cluster.create(&context(), CONFIG_MAPS, "{metadata: {name: a}}").await.unwrap();
    let options = UpdateOptions { uid: Some("other".into()), ..UpdateOptions::default() };
    for (about, context, key) in
        [("a dry run", dry_run(), "/configmaps/default/a"), ("a write", context(), "/registry/configmaps/default/a")]
    {
        let got = cluster.update(&context, CONFIG_MAPS, "a", &options, &json!({})).await.unwrap_err();
        assert!(got.message().contains(&format!("Code: 4, Key: {key}, ResourceVersion: 0")), "{about}: {got:?}");
    }
}

#[tokio::test]
async fn resource_version_changes_only_with_stored_object() {
    let cluster = Cluster::new();
    let created = cluster.create(&context(), CONFIG_MAPS, "{metadata: {name: a}, data: {k: v}}").await.unwrap();
    let version = |object: &binnacle_schema::Value| object.str_at(&["metadata", "resourceVersion"]).to_owned();
    for (about, context, change, moves) in [
        ("no fields", context(), json!({}), false),
        ("equal fields", context(), json!({"data": {"k": "v"}}), false),
        ("a dry run", dry_run(), json!({"data": {"k": "w"}}), false),
        ("a change", context(), json!({"data": {"k": "w"}}), true),
    ] {
        let updated = cluster.update(&context, CONFIG_MAPS, "a", &UpdateOptions::default(), &change).await.unwrap();
        let stored = cluster.get(CONFIG_MAPS, "a").await.unwrap();
        assert_eq!(version(&stored) != version(&created), moves, "{about}");
        let data = change.pointer("/data/k").cloned().unwrap_or(json!("v"));
        assert_eq!(to_json(&updated)["data"]["k"], data, "{about}: the response shows the result");
    }
    let missing = cluster.update(&context(), CONFIG_MAPS, "b", &UpdateOptions::default(), &json!({})).await;
    check("an absent object", &missing, &Fails(404, r#"configmaps "b" not found"#));
}
