//! The life cycle of an object of every kind with kubectl: created, shown in each format, labeled, annotated, patched,
//! deleted.

use binnacle_testkit::{Kubectl, Server};
use serde_json::json;

use crate::manifests::{ALL, Manifest, squeezed};

const LABEL: &str = "app.kubernetes.io/part-of=shop";

/// A test for each kind.
macro_rules! lives {
    ($($kind:ident)*) => {
        $(#[test]
        #[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
        fn $kind() {
            life(stringify!($kind));
        })*

        const KINDS: &[&str] = &[$(stringify!($kind)),*];
    };
}

lives! {
    configmap secret persistentvolumeclaim service ingress deployment statefulset
    daemonset job cronjob role rolebinding event lease
}

#[test]
fn covers_every_manifest() {
    assert_eq!(ALL.iter().map(|manifest| plain(manifest.resource)).collect::<Vec<_>>(), KINDS);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_creates_and_deletes_an_application() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    kubectl.ok(&["create", "namespace", "shop"]);
    let application = ALL.iter().map(|manifest| manifest.text("shop")).collect::<Vec<_>>().join("\n---\n");
    let created = kubectl.ok_with(&["create", "--namespace=shop", "-f", "-"], &application);
    let want: String = ALL.iter().map(|manifest| manifest.target() + " created\n").collect();
    assert_eq!(created, want);

    // By name, from several kinds, in the requested order.
    let targets: Vec<String> = ALL.iter().map(Manifest::target).collect();
    let mut arguments = vec!["get", "--namespace=shop", "--output=name"];
    arguments.extend(targets.iter().map(String::as_str));
    assert_eq!(kubectl.ok(&arguments).lines().collect::<Vec<_>>(), targets);

    // From every namespace, with a namespace column.
    let everywhere = squeezed(&kubectl.ok(&["get", "-A", "--output=wide", &resources()]));
    for manifest in ALL {
        let target = manifest.target();
        assert!(everywhere.contains(&target), "{target}\n{everywhere}");
    }
    assert_eq!(everywhere.matches("NAMESPACE ").count(), ALL.len(), "{everywhere}");
    assert_eq!(everywhere.lines().filter(|line| line.starts_with("shop ")).count(), ALL.len(), "{everywhere}");
    let all = kubectl.ok(&["get", "all", "--namespace=shop", "--output=name"]);
    for target in ["service/shop-web", "deployment.apps/shop-web", "statefulset.apps/shop-db", "job.batch/shop-migrate"]
    {
        assert!(all.lines().any(|line| line == target), "{target}: {all}");
    }

    // Selection by labels, in all namespaces and kinds.
    let labelled =
        kubectl.ok(&["get", "-A", "--output=name", "-l", "app.kubernetes.io/component in (web, db)", &resources()]);
    assert_eq!(
        labelled.lines().collect::<Vec<_>>(),
        [
            "configmap/shop-web",
            "secret/shop-db",
            "service/shop-web",
            "deployment.apps/shop-web",
            "statefulset.apps/shop-db"
        ]
    );
    let sorted = kubectl.ok(&["get", "--namespace=shop", "--sort-by=.metadata.name", "--output=name", "deploy,sts,ds"]);
    assert_eq!(sorted, "daemonset.apps/node-metrics\nstatefulset.apps/shop-db\ndeployment.apps/shop-web\n");
    let fields = ["get", "--namespace=shop", "events", "--field-selector=involvedObject.name=shop-web,type=Normal"];
    assert_eq!(kubectl.json(&fields)["items"].as_array().unwrap().len(), 1);

    ALL.iter().for_each(|manifest| play_protection(&kubectl, manifest));
    let deleted = kubectl.ok_with(&["delete", "--namespace=shop", "-f", "-"], &application);
    assert_eq!(deleted.lines().count(), ALL.len(), "{deleted}");
    let left = kubectl.ok(&["get", "--namespace=shop", "--output=name", "-l", LABEL, &resources()]);
    assert_eq!(left, "");
}

fn resources() -> String {
    ALL.iter().map(|manifest| manifest.resource).collect::<Vec<_>>().join(",")
}

/// Plays the controller that removes the protection of claims when no pod uses them; no controller runs here.
pub(crate) fn play_protection(kubectl: &Kubectl, manifest: &Manifest) {
    if manifest.resource == "persistentvolumeclaim" {
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        kubectl.ok(&["patch", "--namespace=shop", &manifest.target(), "--type=merge", "-p", patch]);
    }
}

/// Returns the resource without its group.
fn plain(resource: &str) -> &str {
    resource.split('.').next().unwrap()
}

fn life(kind: &str) {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    kubectl.ok(&["create", "namespace", "shop"]);
    let manifest = ALL.iter().find(|manifest| plain(manifest.resource) == kind).unwrap();
    let target = &manifest.target();
    let ok = |arguments: &[&str]| kubectl.ok(&[arguments, &["--namespace=shop"]].concat());
    let get = || kubectl.json(&["get", "--namespace=shop", target]);

    let create = ["create", "--namespace=shop", "-f", "-"];
    assert_eq!(kubectl.ok_with(&create, &manifest.text("shop")), format!("{target} created\n"));
    let again = kubectl.run_with(&create, &manifest.text("shop"));
    assert!(!again.success && again.err.contains("(AlreadyExists)"), "{again}");

    if manifest.completed_when_read() {
        let yaml = ok(&["get", target, "--output=yaml"]);
        kubectl.ok_with(&["replace", "--namespace=shop", "-f", "-"], &yaml);
    }

    // Each format shows the same object.
    let object = get();
    assert_eq!(object["metadata"]["name"], manifest.name);
    assert_eq!(object["metadata"]["namespace"], "shop");
    assert!(object["metadata"]["uid"].as_str().unwrap().len() == 36, "{object}");
    assert_eq!(ok(&["get", target, "--output=name"]), format!("{target}\n"));
    let wide = squeezed(&ok(&["get", target, "--output=wide"]));
    for part in manifest.wide {
        assert!(wide.contains(part), "{target}: no {part:?} in\n{wide}");
    }
    let yaml = ok(&["get", target, "--output=yaml"]);
    // kubectl can read its own YAML: the object is the same, so replacing it changes nothing.
    let replace = kubectl.ok_with(&["replace", "--namespace=shop", "-f", "-"], &yaml);
    assert_eq!(replace, format!("{target} replaced\n"));
    assert_eq!(get(), object);
    let described = squeezed(&ok(&["describe", target]));
    for part in manifest.describe {
        assert!(described.contains(part), "{target}: no {part:?} in\n{described}");
    }

    // Labels and annotations are added, changed and removed.
    ok(&["label", target, "team=one"]);
    assert!(kubectl.fails(&["label", "--namespace=shop", target, "team=two"]).contains("--overwrite"));
    ok(&["label", target, "team=two", "--overwrite"]);
    assert_eq!(get()["metadata"]["labels"]["team"], "two");
    assert_eq!(ok(&["get", manifest.resource, "-l", "team=two,team!=one", "--output=name"]), format!("{target}\n"));
    assert_eq!(ok(&["get", manifest.resource, "-l", "team=one", "--output=name"]), "");
    ok(&["annotate", target, "example.com/owner=jane doe"]);
    assert_eq!(get()["metadata"]["annotations"]["example.com/owner"], "jane doe");
    ok(&["label", target, "team-"]);
    ok(&["annotate", target, "example.com/owner-"]);

    // The three types of patches.
    let merge = json!({"metadata": {"annotations": {"a": "merge"}}}).to_string();
    ok(&["patch", target, "--type=merge", "-p", &merge]);
    let patch = json!([
        {"op": "test", "path": "/metadata/annotations/a", "value": "merge"},
        {"op": "copy", "from": "/metadata/annotations/a", "path": "/metadata/annotations/b"},
        {"op": "replace", "path": "/metadata/annotations/a", "value": "json"},
    ]);
    ok(&["patch", target, "--type=json", "-p", &patch.to_string()]);
    let strategic = json!({"metadata": {"annotations": {"c": "strategic", "b": null}}}).to_string();
    ok(&["patch", target, "--type=strategic", "-p", &strategic]);
    let annotations = get()["metadata"]["annotations"].clone();
    assert_eq!(
        (&annotations["a"], &annotations["b"], &annotations["c"]),
        (&json!("json"), &json!(null), &json!("strategic"))
    );
    let unchanged = ok(&["patch", target, "--type=strategic", "-p", &strategic]);
    assert_eq!(unchanged, format!("{target} patched (no change)\n"));
    assert_ne!(get()["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    assert_eq!(get()["metadata"]["uid"], object["metadata"]["uid"]);

    // A stale object does not overwrite a change.
    let stale = kubectl.run_with(&["replace", "--namespace=shop", "-f", "-"], &yaml);
    assert!(!stale.success && stale.err.contains("(Conflict)"), "{stale}");

    play_protection(&kubectl, manifest);
    let deleted = ok(&["delete", target]);
    assert!(deleted.contains(&format!("\"{}\" ", manifest.name)) && deleted.contains("deleted"), "{deleted}");
    assert!(kubectl.fails(&["get", "--namespace=shop", target]).contains("(NotFound)"));
}
