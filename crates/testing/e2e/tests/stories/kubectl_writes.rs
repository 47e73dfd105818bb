//! Writes other than `apply`: dry runs, rejections, and writes without a change.

use binnacle_testkit::{Kubectl, Server};
use serde_json::json;

use crate::kubectl_changes::shop;
use crate::manifests::ALL;

fn deployment() -> String {
    ALL.iter().find(|manifest| manifest.resource == "deployment.apps").unwrap().text("shop")
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_diff_shows_changes() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    kubectl.ok(&["create", "namespace", "shop"]);
    let text = deployment();
    for mode in ["--server-side=false", "--server-side=true"] {
        let mut apply = vec!["apply", mode, "--namespace=shop", "-f", "-"];
        if mode == "--server-side=true" {
            apply.push("--force-conflicts");
        }
        kubectl.ok_with(&apply, &text);
        let diff = |text: &str| kubectl.run_with(&["diff", mode, "--namespace=shop", "-f", "-"], text);
        let same = diff(&text);
        assert!(same.success && same.out.is_empty(), "{same}");
        let changed = diff(&text.replace("replicas: 3", "replicas: 4"));
        assert!(!changed.success, "{changed}");
        assert!(changed.out.contains("-  replicas: 3\n+  replicas: 4\n"), "{changed}");
        assert!(changed.out.contains("-  generation: 1\n+  generation: 2\n"), "{changed}");
        // It had no effect.
        assert_eq!(kubectl.json(&["get", "--namespace=shop", "deployment/shop-web"])["spec"]["replicas"], 3);
    }
}

#[test]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
fn kubectl_reports_unknown_fields() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    kubectl.ok(&["create", "namespace", "shop"]);
    let wrong = deployment()
        .replace("replicas: 3", "replicas: 3\n  replica: 4")
        .replace("image: ", "imago: x\n          image: ");
    let create = |validate: &str, name: &str| {
        let text = wrong.replacen("name: shop-web", &format!("name: {name}"), 1);
        kubectl.run_with(&["create", validate, "--namespace=shop", "-f", "-"], &text)
    };
    let strict = create("--validate=strict", "strict");
    assert!(!strict.success, "{strict}");
    let found = r#"strict decoding error: unknown field "spec.replica", unknown field "spec.template.spec.containers[0].imago""#;
    assert!(strict.err.contains(found), "{strict}");
    let warn = create("--validate=warn", "warn");
    assert!(warn.success && warn.err.contains("Warning: unknown field \"spec.replica\"\n"), "{warn}");
    let ignore = create("--validate=ignore", "ignore");
    assert!(ignore.success && ignore.err.is_empty(), "{ignore}");
    // A wrong type is rejected at any level of field validation.
    let typed = deployment().replace("replicas: 3", "replicas: three");
    let typed = kubectl.run_with(&["create", "--validate=ignore", "--namespace=shop", "-f", "-"], &typed);
    assert!(
        typed.err.contains("cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        "{typed}"
    );
}

#[test]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
fn kubectl_patches_objects_and_subresources() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    let target = "deployment.apps/shop-web";
    for (kind, patch) in [
        ("--type=merge", json!({"status": {"replicas": 1}, "spec": {"replicas": 9}})),
        ("--type=strategic", json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}})),
        ("--type=json", json!([{"op": "add", "path": "/status/updatedReplicas", "value": 1}])),
    ] {
        let patch = patch.to_string();
        kubectl.ok(&["patch", "--namespace=shop", target, "--subresource=status", kind, "-p", &patch]);
    }
    let object = kubectl.json(&["get", "--namespace=shop", target]);
    assert_eq!((&object["status"]["replicas"], &object["spec"]["replicas"]), (&json!(1), &json!(3)));
    assert_eq!(
        (&object["status"]["updatedReplicas"], &object["status"]["conditions"][0]["type"]),
        (&json!(1), &json!("Available"))
    );
    kubectl.ok(&[
        "patch",
        "--namespace=shop",
        target,
        "--subresource=scale",
        "--type=merge",
        "-p",
        r#"{"spec":{"replicas":2}}"#,
    ]);
    assert_eq!(kubectl.json(&["get", "--namespace=shop", target])["spec"]["replicas"], 2);
    // A list merged by key, a removed element, and a requested order that the patch must keep.
    let strategic = |containers: serde_json::Value| {
        let order = json!([{"name": "proxy"}, {"name": "web"}, {"name": "log"}]);
        json!({"spec": {"template": {"spec": {"$setElementOrder/containers": order, "containers": containers}}}})
            .to_string()
    };
    let log = json!({"name": "log", "image": "log:1"});
    let web = json!({"name": "web", "env": [{"name": "GREETING", "$patch": "delete"}]});
    let refused = kubectl.fails(&["patch", "--namespace=shop", target, "-p", &strategic(json!([log, web]))]);
    assert!(refused.contains("order in patch list"), "{refused}");
    kubectl.ok(&["patch", "--namespace=shop", target, "-p", &strategic(json!([web, log]))]);
    let names =
        kubectl.ok(&["get", "--namespace=shop", target, "-o", "jsonpath={.spec.template.spec.containers[*].name}"]);
    assert_eq!(names, "proxy web log");
    for (kind, patch, why) in [
        ("--type=json", r#"[{"op":"test","path":"/spec/replicas","value":77}]"#, "the server rejected our request"),
        ("--type=merge", r#"{"spec":{"replicas":"many"}}"#, "cannot unmarshal string into Go struct field"),
        (
            "--type=strategic",
            r#"{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}"#,
            "does not contain declared merge key: name",
        ),
    ] {
        let refused = kubectl.fails(&["patch", "--namespace=shop", target, kind, "-p", patch]);
        assert!(refused.contains(why), "{refused}");
    }
    // Present values are not overwritten without a flag.
    kubectl.ok(&["annotate", "--namespace=shop", target, "team=one"]);
    let refused = kubectl.fails(&["annotate", "--namespace=shop", target, "team=two"]);
    assert!(refused.contains("--overwrite is false"), "{refused}");
    kubectl.ok(&["annotate", "--overwrite", "--namespace=shop", target, "team=two"]);
    assert_eq!(kubectl.json(&["get", "--namespace=shop", target])["metadata"]["annotations"]["team"], "two");
}

/// Writes without a change: the object keeps its version, and the store its revision.
#[tokio::test(flavor = "multi_thread")]
async fn unchanged_writes_keep_the_resource_version() {
    const TIMES: i64 = 20;
    let server = Server::ephemeral();
    let mut client = server.client().await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let config = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"a":"b"}},"spec":{"replicas":2,
        "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
        "spec":{"containers":[{"name":"web","image":"nginx","resources":{"limits":{"cpu":"0.5"}},"ports":[{"containerPort":80}]}]}}}}"#;
    let apply = format!("{path}?fieldManager=test");
    let types = |content_type: &'static str| [("content-type", content_type)];
    let made = client.send("PATCH", &apply, &types("application/apply-patch+yaml"), config).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.body);
    let read = |body: &str| serde_json::from_str::<serde_json::Value>(body).unwrap();
    let before = read(&client.get(path).await.unwrap().body);
    // The version of a list is the revision of the store.
    let list = "/api/v1/namespaces/default/configmaps";
    let revision = |body: &str| read(body)["metadata"]["resourceVersion"].as_str().unwrap().parse::<i64>().unwrap();
    let first = revision(&client.get(list).await.unwrap().body);
    for _ in 0..TIMES {
        for (path, content_type, patch) in [
            (apply.as_str(), "application/apply-patch+yaml", config),
            (path, "application/strategic-merge-patch+json", r#"{"spec":{"replicas":2}}"#),
            (path, "application/merge-patch+json", r#"{"metadata":{"labels":{"a":"b"}}}"#),
            (path, "application/json-patch+json", r#"[{"op":"test","path":"/spec/replicas","value":2}]"#),
        ] {
            let again = client.send("PATCH", path, &types(content_type), patch).await.unwrap();
            assert_eq!((again.status, read(&again.body)), (200, before.clone()), "{content_type}");
        }
        let same = client.send("PUT", path, &types("application/json"), before.to_string()).await.unwrap();
        assert_eq!((same.status, read(&same.body)), (200, before.clone()));
    }
    // The server itself writes occasionally, but not once for each of these.
    let last = revision(&client.get(list).await.unwrap().body);
    assert!(last - first < TIMES, "{first} to {last}");
}
