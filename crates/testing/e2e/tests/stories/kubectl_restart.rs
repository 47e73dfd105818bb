//! A restart of the server during a kubectl session.

use binnacle_testkit::{Kubectl, Server};
use serde_json::Value;

use crate::kubectl_changes::shop;
use crate::manifests::ALL;

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn objects_are_unchanged_after_a_restart() {
    let mut server = Server::durable();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    kubectl.ok(&["scale", "--namespace=shop", "deployment/shop-web", "--replicas=5"]);
    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    kubectl.ok(&["patch", "--namespace=shop", "secret/shop-db", "--type=merge", "-p", hold]);
    kubectl.ok(&["delete", "--namespace=shop", "secret/shop-db", "--wait=false"]);
    let resources: Vec<&str> = ALL.iter().map(|manifest| manifest.resource).collect();
    let all = || -> Value { kubectl.json(&["get", "--namespace=shop", &resources.join(",")])["items"].clone() };
    let before = all();
    assert_eq!(before.as_array().unwrap().len(), ALL.len());

    let took = server.terminate();
    println!("SIGTERM: ended after {took:?}");
    let down = kubectl.fails(&["get", "--namespace=shop", "deployments"]);
    assert!(down.contains("refused"), "{down}");
    server.restart();
    println!("ready again after {:?}", server.took);
    assert_eq!(all(), before);

    // An object that was read before the restart can be written after it.
    let read = kubectl.ok(&["get", "--namespace=shop", "configmap/shop-web", "--output=json"]);
    server.kill();
    server.restart();
    assert_eq!(all(), before);
    let replaced = ["replace", "--namespace=shop", "-f", "-"];
    kubectl.ok_with(&replaced, &read.replace("\"LOG_LEVEL\": \"info\"", "\"LOG_LEVEL\": \"debug\""));
    let stale = kubectl.run_with(&replaced, &read);
    assert!(!stale.success && stale.err.contains("(Conflict)"), "{stale}");
    kubectl.ok(&[
        "patch",
        "--namespace=shop",
        "secret/shop-db",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":[]}}"#,
    ]);
    assert!(kubectl.fails(&["get", "--namespace=shop", "secret/shop-db"]).contains("NotFound"));
    kubectl.ok(&["create", "configmap", "new", "--namespace=shop"]);

    server.restart();
    assert_eq!(all().as_array().unwrap().len(), ALL.len(), "one gone, one new");
    assert_eq!(kubectl.json(&["get", "--namespace=shop", "configmap/shop-web"])["data"]["LOG_LEVEL"], "debug");
    assert_eq!(kubectl.json(&["get", "--namespace=shop", "deployment/shop-web"])["spec"]["replicas"], 5);
}
