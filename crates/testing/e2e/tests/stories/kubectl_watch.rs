//! Watching with kubectl: `get --watch` and `wait`.

use std::time::Duration;

use binnacle_testkit::{Kubectl, Server};

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_watches_changes() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    for namespace in ["one", "two"] {
        kubectl.ok(&["create", "namespace", namespace]);
    }
    let create = |namespace: &str, name: &str| {
        kubectl.ok(&["create", "configmap", name, "--namespace", namespace, "--from-literal=a=b"])
    };
    create("one", "first");
    let mut table = kubectl.spawn(&["get", "configmaps", "--namespace=one", "--watch"]);
    table.until("first ");
    let mut names = kubectl.spawn(&["get", "configmaps", "--namespace=one", "--watch-only", "--output=name"]);
    let mut everywhere = kubectl.spawn(&[
        "get",
        "configmaps",
        "-A",
        "--watch",
        "--output-watch-events",
        "--field-selector=metadata.name=second",
    ]);
    let mut labelled =
        kubectl.spawn(&["get", "configmaps", "-A", "--watch", "--output-watch-events", "-l", "watched=yes"]);
    // Events before the start of the watch would be missed: the marker is repeated until it is seen.
    for n in 0.. {
        create("one", &format!("marker-{n}"));
        if names.within("configmap/marker-", Duration::from_millis(200)).is_some() {
            break;
        }
        assert!(n < 100, "the watch shows nothing");
    }
    create("two", "second");
    let line = everywhere.until("second");
    assert!(crate::manifests::squeezed(&line).starts_with("ADDED two second 1 "), "{line}");
    create("one", "second");
    table.until("second ");
    names.until("configmap/second");
    everywhere.until("second");

    // An object that begins to match results in ADDED, one that stops in DELETED.
    kubectl.ok(&["label", "configmap", "second", "--namespace=two", "watched=yes"]);
    assert!(labelled.until("second").starts_with("ADDED"));
    kubectl.ok(&["patch", "configmap", "second", "--namespace=two", "--type=merge", "-p", r#"{"data":{"c":"d"}}"#]);
    assert!(labelled.until("second").starts_with("MODIFIED"));
    kubectl.ok(&["label", "configmap", "second", "--namespace=two", "watched=no", "--overwrite"]);
    assert!(labelled.until("second").starts_with("DELETED"));
    kubectl.ok(&["delete", "configmap", "second", "--namespace=two"]);
    everywhere.until("DELETED");
}

#[test]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
fn kubectl_waits_for_deletion_and_values() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    kubectl.ok(&["create", "namespace", "one"]);
    kubectl.ok(&["create", "configmap", "doomed", "--namespace=one"]);
    let wait = kubectl.spawn(&["wait", "--namespace=one", "--for=delete", "configmap/doomed", "--timeout=60s"]);
    kubectl.ok(&["delete", "configmap", "doomed", "--namespace=one"]);
    assert!(wait.end().0);

    kubectl.ok(&["create", "configmap", "slow", "--namespace=one", "--from-literal=state=starting"]);
    let mut wait = kubectl.spawn(&["wait", "--namespace=one", "--for=jsonpath={.data.state}=ready", "configmap/slow"]);
    kubectl.ok(&["patch", "configmap/slow", "--namespace=one", "--type=merge", "-p", r#"{"data":{"state":"ready"}}"#]);
    wait.until("configmap/slow condition met");
    kubectl.ok(&["create", "configmap", "never", "--namespace=one"]);
    let late = kubectl.fails(&["wait", "--namespace=one", "--for=delete", "configmap/never", "--timeout=1s"]);
    assert!(late.contains("timed out waiting for the condition"), "{late}");
}
