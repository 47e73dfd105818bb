//! Backup and restore of single logical clusters.

use binnacle_testkit::{Etcd, Kubectl, Server, TempDir, Tool, ToolOutcome};
use serde_json::json;

use crate::logical_cluster_host::{Host, make_map, maps};

const ENCRYPTION: &str = "{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{resources: \
                          [secrets], providers: [{aescbc: {keys: [{name: k, secret: \
                          AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}]}}]}]}";

/// Runs `binnacle cluster` with the administrator of a host.
fn run(host: &Host, arguments: &[&str]) -> ToolOutcome {
    let kubeconfig = format!("--kubeconfig={}", host.server.kubeconfig().display());
    Tool::run(&[&["cluster", &kubeconfig], arguments].concat())
}

/// Runs it, asserts its success, and returns its output.
fn succeed(host: &Host, arguments: &[&str]) -> String {
    let outcome = run(host, arguments);
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
    outcome.out
}

/// Runs it, asserts its failure, and returns the message.
fn fail(host: &Host, arguments: &[&str]) -> String {
    let outcome = run(host, arguments);
    assert_eq!(outcome.code, Some(1), "{arguments:?}: {outcome:?}");
    outcome.err
}

fn secret(kubectl: &Kubectl, name: &str) -> String {
    let template = "--output=go-template={{.data.word | base64decode}}";
    kubectl.ok(&["get", "secret", name, "--namespace=default", template])
}

/// A cluster moves from an embedded store to an etcd with encryption, where its events are in another etcd, with more
/// objects than a page has.
#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn cluster_moves_to_another_host() {
    let (temp, [etcd, events]) = (TempDir::new(), [Etcd::single(), Etcd::single()]);
    let [file, config] = ["a.backup", "encryption.yaml"].map(|name| temp.join(name));
    std::fs::write(&config, ENCRYPTION).unwrap();
    let from = Host::start(&[]);
    let a = from.create("a", &json!({}));
    from.create("b", &json!({}));
    let filler = json!({"apiVersion": "v1", "kind": "List", "items": (0..2500).map(|n| json!({"apiVersion": "v1",
        "kind": "ConfigMap", "metadata": {"name": format!("filler-{n}"), "namespace": "kube-public"}})).collect::<Vec<_>>()});
    a.ok_with(&["create", "-f", "-"], &filler.to_string());
    make_map(&a, "one");
    a.ok(&["create", "secret", "generic", "hidden", "--namespace=default", "--from-literal=word=treasure"]);
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Met", "message": "m"});
    a.ok_with(&["create", "-f", "-"], &event.to_string());
    assert!(succeed(&from, &["backup", "a", &file]).starts_with("Saved "));
    assert!(fail(&from, &["backup", "a", &file]).contains("already exists"));
    assert!(!std::fs::read_to_string(from.kubeconfig("b")).unwrap().is_empty());

    let overrides = format!("--etcd-servers-overrides=/events#{}", events.endpoints()[0]);
    let to = Host::start(&[&etcd.servers(), &overrides, &format!("--encryption-provider-config={config}")]);
    to.create("other", &json!({}));
    let restored = succeed(&to, &["restore", "a", &file]);
    let url = format!("https://{}/clusters/a\n", to.server.address);
    assert!(restored.starts_with(&url), "{restored}");
    // The former administrator's certificate stays valid.
    let there = to.kubectl.with_kubeconfig(to.kubeconfig("a"));
    let server = format!("--server=https://{}/clusters/a", to.server.address);
    let former = a.ok(&[
        "get",
        "configmap",
        "one",
        "--namespace=default",
        &server,
        "--insecure-skip-tls-verify",
        "--output=name",
    ]);
    assert_eq!(former, "configmap/one\n");
    assert_eq!(maps(&there), "configmap/one\n");
    assert_eq!(secret(&there, "hidden"), "treasure");
    assert_eq!(there.ok(&["get", "configmaps", "--namespace=kube-public", "--output=name"]).lines().count(), 2500);
    assert_eq!(there.ok(&["get", "events", "--namespace=default", "--output=name"]), "event/e\n");
    let [stored, expiring] =
        [&etcd, &events].map(|etcd| etcd.ctl(0, &["get", "/registry/logicalclusters/", "--prefix"]));
    assert!(!stored.contains("treasure") && !stored.contains("/events/default/e"), "the Secret and the event");
    assert!(expiring.contains("/events/default/e") && !expiring.contains("/configmaps/"), "{expiring}");
    // Revisions of the former host, and those before the restore, have no meaning.
    let watch = |version: &str| {
        let path = format!(
            "/clusters/a/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=5&resourceVersion={version}"
        );
        there.run(&["get", "--raw", &path])
    };
    let old = to.kubectl.ok(&["get", "logicalcluster", "other", "--output=jsonpath={.metadata.resourceVersion}"]);
    let gone = watch(&old);
    assert!(gone.out.contains("410") || gone.err.contains("too old resource version"), "{gone}");
}

/// A cluster is restored only while it is suspended and empty, and by users with the permission.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn restores_only_into_new_clusters() {
    let temp = TempDir::new();
    let [file, tokens] = ["a.backup", "tokens.csv"].map(|name| temp.join(name));
    std::fs::write(&tokens, "of-jane,jane,1\n").unwrap();
    let host = Host::start(&[&format!("--token-auth-file={tokens}")]);
    let a = host.create("a", &json!({}));
    make_map(&a, "one");
    succeed(&host, &["backup", "a", &file]);
    let refused = fail(&host, &["restore", "a", &file]);
    assert!(refused.contains("\"a\" already exists"), "{refused}");
    let path = "/apis/binnacle.dev/v1alpha1/logicalclusters/a";
    let part = json!({"first": true, "items": [], "last": false}).to_string();
    let body = temp.join("part.json");
    std::fs::write(&body, part).unwrap();
    let post = |kubectl: &Kubectl, more: &[&str]| {
        kubectl.run(&[&["create", "--raw", &format!("{path}/restore"), "-f", &body], more].concat())
    };
    let refused = post(&host.kubectl, &[]);
    assert!(refused.err.contains("a cluster can be restored only while it is suspended"), "{refused}");
    host.kubectl.ok(&["patch", "logicalcluster", "a", "--type=merge", "--patch", r#"{"spec":{"suspended":true}}"#]);
    host.wait_for("a", "Suspended");
    let refused = post(&host.kubectl, &[]);
    assert!(refused.err.contains("the cluster has objects: restore a new one"), "{refused}");
    std::fs::write(&body, json!({"items": [{"key": "configmaps/default/one", "value": ""}]}).to_string()).unwrap();
    let refused = post(&host.kubectl, &[]);
    assert!(refused.err.contains("no restore of this cluster has begun"), "{refused}");
    for (words, verb) in [(vec!["get", "--raw"], "backup"), (vec!["create", "-f", &body, "--raw"], "restore")] {
        let target = format!("{path}/{verb}");
        let refused = host.kubectl.run(&[&words[..], &[&target, "--as=jane"]].concat());
        assert!(refused.err.contains("Forbidden") && refused.err.contains(verb), "{refused}");
    }
    // A damaged file makes no cluster.
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = temp.join("damaged.backup");
    std::fs::write(&damaged, bytes).unwrap();
    let refused = fail(&host, &["restore", "c", &damaged]);
    assert!(refused.contains("checksum"), "{refused}");
    assert_eq!(host.kubectl.ok(&["get", "logicalclusters", "--output=name"]), "logicalcluster.binnacle.dev/a\n");
}

/// The backup of a cluster is a backup of a server, in both directions.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn cluster_becomes_a_server_and_back() {
    let temp = TempDir::new();
    let [file, data, back] = ["a.backup", "data", "back.backup"].map(|name| temp.join(name));
    let host = Host::start(&[]);
    let a = host.create("a", &json!({}));
    make_map(&a, "one");
    succeed(&host, &["backup", "a", &file]);
    Tool::succeed(&["check", &file]);
    Tool::succeed(&["restore", &file, &data]);
    {
        let server = Server::start(&[&format!("--data-dir={data}")]);
        let alone = Kubectl::new(&server);
        assert_eq!(maps(&alone), "configmap/one\n");
        make_map(&alone, "two");
    }
    Tool::succeed(&["backup", &data, &back]);
    succeed(&host, &["restore", "again", &back]);
    let again = host.administrator("again");
    assert_eq!(maps(&again), "configmap/one\nconfigmap/two\n");
    assert_eq!(maps(&a), "configmap/one\n");
}
