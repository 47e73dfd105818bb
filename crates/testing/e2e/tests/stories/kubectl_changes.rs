//! Changes objects with kubectl: edit, scale, set, dry runs, deletion that waits for finalizers.

use binnacle_testkit::{Kubectl, Server, wait_until_blocking};
use serde_json::json;

use crate::manifests::ALL;

/// Creates a namespace with the shop's deployment and related objects.
pub(crate) fn shop(kubectl: &Kubectl) {
    kubectl.ok(&["create", "namespace", "shop"]);
    let application = ALL.iter().map(|manifest| manifest.text("shop")).collect::<Vec<_>>().join("\n---\n");
    kubectl.ok_with(&["create", "--namespace=shop", "-f", "-"], &application);
}

#[test]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
fn kubectl_edits_objects() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    let get = |target: &str| kubectl.json(&["get", "--namespace=shop", target]);

    let target = "deployment.apps/shop-web";
    let image = "s|shop/web:4.12.0|shop/web:4.13.0|";
    assert_eq!(kubectl.edit(&["--namespace=shop", target], image), format!("{target} edited\n"));
    let edited = get(target);
    assert_eq!(edited["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example.com/shop/web:4.13.0");
    assert_eq!(edited["metadata"]["generation"], 2);
    // An editor without changes sends no request.
    let none = kubectl.edit(&["--namespace=shop", target], "s|a|a|");
    assert!(none.is_empty() || none.contains("no changes"), "{none}");
    assert_eq!(get(target)["metadata"]["resourceVersion"], edited["metadata"]["resourceVersion"]);

    let target = "configmap/shop-web";
    kubectl.edit(&["--namespace=shop", target], "s|LOG_LEVEL: info|LOG_LEVEL: debug|");
    let edited = get(target);
    assert_eq!(edited["data"]["LOG_LEVEL"], "debug");
    assert!(edited["data"]["nginx.conf"].as_str().unwrap().contains("\n  upstream api {\n"));

    let script =
        "s|^status:.*|status: {observedGeneration: 2, replicas: 1}|; /^  availableReplicas/d; /^  replicas: 0/d";
    let status = ["--namespace=shop", "--subresource=status", "deployment.apps/shop-web"];
    kubectl.edit(&status, script);
    let edited = get("deployment.apps/shop-web");
    assert_eq!((&edited["status"]["replicas"], &edited["metadata"]["generation"]), (&json!(1), &json!(2)));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_scales_workloads() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    for target in ["deployment.apps/shop-web", "statefulset.apps/shop-db"] {
        let replicas = || kubectl.json(&["get", "--namespace=shop", target])["spec"]["replicas"].clone();
        let before = replicas().to_string();
        let current = format!("--current-replicas={before}");
        assert_eq!(
            kubectl.ok(&["scale", "--namespace=shop", target, "--replicas=7", &current]),
            format!("{target} scaled\n")
        );
        assert_eq!(replicas(), 7);
        let refused = kubectl.fails(&["scale", "--namespace=shop", target, "--replicas=1", &current]);
        assert!(refused.contains(&format!("Expected replicas to be {before}, was 7")), "{refused}");
        kubectl.ok(&["scale", "--namespace=shop", target, "--replicas=0"]);
        assert_eq!(replicas(), 0);
    }
    let several =
        kubectl.ok(&["scale", "--namespace=shop", "--replicas=2", "deployment/shop-web", "statefulset/shop-db"]);
    assert_eq!(several, "deployment.apps/shop-web scaled\nstatefulset.apps/shop-db scaled\n");
    let refused = kubectl.fails(&["scale", "--namespace=shop", "--replicas=2", "configmap/shop-web"]);
    assert!(refused.contains("NotFound") || refused.contains("could not find"), "{refused}");
    let autoscale = ["autoscale", "--namespace=shop", "deployment/shop-web", "--min=2", "--max=9", "--cpu-percent=70"];
    kubectl.ok(&autoscale);
    // Written through autoscaling/v1 or v2, read through both.
    for version in ["v1", "v2"] {
        let resource = format!("horizontalpodautoscalers.{version}.autoscaling");
        let scaler = kubectl.json(&["get", "--namespace=shop", &resource, "shop-web"]);
        assert_eq!((&scaler["spec"]["minReplicas"], &scaler["spec"]["maxReplicas"]), (&json!(2), &json!(9)));
    }
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_creates_objects_imperatively() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    kubectl.ok(&["create", "namespace", "tools"]);
    let create = |arguments: &[&str]| kubectl.ok(&[&["create", "--namespace=tools"], arguments].concat());
    for (arguments, target) in [
        (&["configmap", "settings", "--from-literal=a=1", "--from-literal=b=2"][..], "configmap/settings"),
        (&["secret", "generic", "keys", "--from-literal=token=abc"], "secret/keys"),
        (&["deployment", "web", "--image=nginx:1", "--replicas=2", "--port=80"], "deployment.apps/web"),
        (&["service", "clusterip", "web", "--tcp=80:8080"], "service/web"),
        (&["ingress", "web", "--rule=web.example.com/*=web:80"], "ingress.networking.k8s.io/web"),
        (&["job", "once", "--image=busybox", "--", "true"], "job.batch/once"),
        (&["cronjob", "often", "--image=busybox", "--schedule=* * * * *", "--", "true"], "cronjob.batch/often"),
        (&["role", "reader", "--verb=get,list", "--resource=pods"], "role.rbac.authorization.k8s.io/reader"),
        (
            &["rolebinding", "reader", "--role=reader", "--serviceaccount=tools:robot"],
            "rolebinding.rbac.authorization.k8s.io/reader",
        ),
        (&["clusterrole", "reader", "--verb=get", "--resource=nodes"], "clusterrole.rbac.authorization.k8s.io/reader"),
        (&["serviceaccount", "robot"], "serviceaccount/robot"),
        (&["quota", "small", "--hard=pods=3,requests.cpu=2"], "resourcequota/small"),
        (&["priorityclass", "high", "--value=1000"], "priorityclass.scheduling.k8s.io/high"),
        (&["poddisruptionbudget", "web", "--selector=app=web", "--min-available=1"], "poddisruptionbudget.policy/web"),
    ] {
        assert_eq!(create(arguments), format!("{target} created\n"));
    }
    create(&["job", "again", "--from=cronjob/often"]);
    let job = kubectl.json(&["get", "--namespace=tools", "job", "again"]);
    assert_eq!(job["metadata"]["ownerReferences"][0]["name"], "often");
    kubectl.ok(&["set", "image", "--namespace=tools", "deployment/web", "nginx=nginx:2"]);
    kubectl.ok(&["set", "env", "--namespace=tools", "deployment/web", "MODE=fast"]);
    kubectl.ok(&["set", "resources", "--namespace=tools", "deployment/web", "--limits=cpu=200m,memory=512Mi"]);
    let container =
        kubectl.json(&["get", "--namespace=tools", "deployment", "web"])["spec"]["template"]["spec"]["containers"][0]
            .clone();
    assert_eq!(container["image"], "nginx:2");
    assert_eq!(container["env"], json!([{"name": "MODE", "value": "fast"}]));
    assert_eq!(container["resources"]["limits"], json!({"cpu": "200m", "memory": "512Mi"}));
    kubectl.ok(&["expose", "--namespace=tools", "deployment/web", "--name=front", "--port=80", "--target-port=8080"]);
    assert_eq!(
        kubectl.json(&["get", "--namespace=tools", "service", "front"])["spec"]["selector"],
        json!({"app": "web"})
    );
    let names = kubectl.ok(&["get", "--namespace=tools", "service", "-o", "jsonpath={.items[*].metadata.name}"]);
    assert_eq!(names, "front web");
    let columns = "custom-columns=NAME:.metadata.name,PORT:.spec.ports[0].port";
    assert_eq!(
        crate::manifests::squeezed(&kubectl.ok(&["get", "--namespace=tools", "service", "-o", columns])),
        "NAME PORT\nfront 80\nweb 80\n"
    );
    // All configuration of the namespace by kind.
    kubectl.ok(&["delete", "--namespace=tools", "deployment,service,ingress,job,cronjob", "--all"]);
    assert_eq!(
        kubectl.ok(&["get", "--namespace=tools", "--output=name", "deployment,service,ingress,job,cronjob"]),
        ""
    );
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn dry_runs_change_nothing() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    let version =
        || kubectl.json(&["get", "--namespace=shop", "deployment/shop-web"])["metadata"]["resourceVersion"].clone();
    let before = version();
    let dry = |arguments: &[&str]| kubectl.ok(&[arguments, &["--namespace=shop", "--dry-run=server"]].concat());
    let target = "deployment.apps/shop-web";
    for (arguments, done) in [
        (&["label", target, "a=b"][..], "labeled"),
        (&["annotate", target, "a=b"], "annotated"),
        (&["patch", target, "--type=merge", "-p", r#"{"spec":{"replicas":9}}"#], "patched"),
        (&["scale", target, "--replicas=9"], "scaled"),
        (&["set", "image", target, "web=x"], "image updated"),
    ] {
        // (Some versions omit the note after a patch.)
        assert!(dry(arguments).starts_with(&format!("{target} {done}")), "{arguments:?}");
    }
    assert_eq!(dry(&["delete", target]), "deployment.apps \"shop-web\" deleted (server dry run)\n");
    let made = dry(&["create", "configmap", "new", "--from-literal=a=b", "--output=json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert!(made["metadata"]["uid"].is_string() && made["metadata"]["resourceVersion"].is_null(), "{made}");
    assert!(kubectl.fails(&["get", "--namespace=shop", "configmap/new"]).contains("NotFound"));
    // A dry run rejects what the real request would reject.
    let exists = ["create", "configmap", "shop-web", "--namespace=shop", "--dry-run=server"];
    assert!(kubectl.fails(&exists).contains("already exists"));
    let invalid = ["create", "configmap", "Upper_Case", "--namespace=shop", "--dry-run=server"];
    assert!(kubectl.fails(&invalid).contains("RFC 1123 subdomain"));
    assert_eq!(version(), before);
}

#[test]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
fn deletion_waits_for_finalizers() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    for target in ["configmap/shop-web", "deployment.apps/shop-web", "persistentvolumeclaim/shop-media"] {
        let finalizers = r#"{"metadata":{"finalizers":["example.com/hold","example.com/too"]}}"#;
        kubectl.ok(&["patch", "--namespace=shop", target, "--type=merge", "-p", finalizers]);
        let delete = kubectl.spawn(&["delete", "--namespace=shop", target, "--wait=true"]);
        let deleting = wait_until_blocking("a deletion timestamp", || {
            let object = kubectl.json(&["get", "--namespace=shop", target]);
            object["metadata"]["deletionTimestamp"].is_string().then_some(object)
        });
        assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
        // Finalizers can be removed now, but not added.
        let more = r#"{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}"#;
        let refused = kubectl.fails(&["patch", "--namespace=shop", target, "--type=merge", "-p", more]);
        assert!(refused.contains("no new finalizers can be added if the object is being deleted"), "{refused}");
        let fewer = r#"{"metadata":{"finalizers":["example.com/too"]}}"#;
        kubectl.ok(&["patch", "--namespace=shop", target, "--type=merge", "-p", fewer]);
        assert!(kubectl.json(&["get", "--namespace=shop", target])["metadata"]["deletionTimestamp"].is_string());
        kubectl.ok(&["patch", "--namespace=shop", target, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
        let (success, lines) = delete.end();
        assert!(success, "{lines:?}");
        assert!(kubectl.fails(&["get", "--namespace=shop", target]).contains("NotFound"));
    }
    // Foreground and orphaning deletion add the collector's finalizers.
    for (policy, finalizer) in [("foreground", "foregroundDeletion"), ("orphan", "orphan")] {
        kubectl.ok(&["create", "configmap", policy, "--namespace=shop"]);
        let cascade = format!("--cascade={policy}");
        kubectl.ok(&["delete", "--namespace=shop", "configmap", policy, &cascade, "--wait=false"]);
        let object = kubectl.json(&["get", "--namespace=shop", "configmap", policy]);
        assert_eq!(object["metadata"]["finalizers"], json!([finalizer]));
    }
}
