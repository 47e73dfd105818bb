//! Forks of logical clusters: what they share with their source, and that nothing else connects them.

use std::thread;
use std::time::Duration;

use binnacle_testkit::{Etcd, Kubectl, Tool, wait_until_blocking};
use serde_json::{Value, json};

use crate::logical_cluster_host::{Host, THINGS, make_map, maps};

fn fork_of(source: &str) -> Value {
    json!({"source": {"cluster": source}})
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn fork_has_the_objects_of_its_source_and_both_go_on_alone() {
    let host = Host::start(&[]);
    let base = host.create("base", &json!({}));
    base.ok_with(&["create", "-f", "-"], THINGS);
    base.ok(&["wait", "--for=condition=Established", "crd/things.clusters.test"]);
    wait_until_blocking("the custom resource is served", || {
        let thing = r#"{"apiVersion": "clusters.test/v1", "kind": "Thing", "metadata": {"name": "one", "namespace": "default"}}"#;
        base.run_with(&["create", "-f", "-"], thing).success.then_some(())
    });
    for name in ["changed", "deleted", "kept"] {
        make_map(&base, name);
    }
    let fork = host.create("fork", &fork_of("base"));
    let list = |kubectl: &Kubectl| {
        let template = "{range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}\n{end}";
        kubectl.ok(&["get", "configmaps,things", "--namespace=default", &format!("--output=jsonpath={template}")])
    };
    assert_eq!(list(&fork), list(&base));

    // Neither sees changes of the other.
    fork.ok(&["delete", "configmap", "deleted", "--namespace=default"]);
    fork.ok(&["patch", "configmap", "changed", "--namespace=default", "--patch", r#"{"data": {"of": "fork"}}"#]);
    make_map(&fork, "of-fork");
    base.ok(&["patch", "configmap", "changed", "--namespace=default", "--patch", r#"{"data": {"of": "base"}}"#]);
    base.ok(&["delete", "configmap", "kept", "--namespace=default"]);
    let names = |names: &[&str]| names.iter().map(|name| format!("configmap/{name}\n")).collect::<String>();
    assert_eq!(maps(&fork), names(&["changed", "kept", "of-fork"]));
    assert_eq!(maps(&base), names(&["changed", "deleted"]));
    let of = |kubectl: &Kubectl| {
        kubectl.ok(&["get", "configmap", "changed", "--namespace=default", "--output=jsonpath={.data.of}"])
    };
    assert_eq!((of(&fork).as_str(), of(&base).as_str()), ("fork", "base"));
    // A deleted name is free.
    make_map(&fork, "deleted");

    // The source goes, the fork stays: also after a restart, which reads everything from the store.
    host.kubectl.ok(&["delete", "logicalcluster", "base"]);
    let Host { mut server, kubectl } = host;
    server.restart();
    let host = Host { server, kubectl };
    let fork = host.administrator("fork");
    assert_eq!(maps(&fork), names(&["changed", "deleted", "kept", "of-fork"]));
    assert_eq!(of(&fork), "fork");
    fork.ok(&["get", "thing", "one", "--namespace=default"]);
}

/// Forks share what they make of equal definitions and objects. Each sees its own definition after a change.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn forks_share_definitions_until_one_changes_its_own() {
    const PLAIN: &str = r#"{"type": "object", "properties": {"a": {"type": "string"}, "old": {"type": "string"}}}"#;
    const OTHER: &str =
        r#"{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "new"}}}"#;
    let definition = |spec: &str| {
        THINGS
            .replace(r#""x-kubernetes-preserve-unknown-fields": true"#, &format!(r#""properties": {{"spec": {spec}}}"#))
            .replace(r#""storage": true,"#, r#""storage": true, "selectableFields": [{"jsonPath": ".spec.a"}],"#)
    };
    let host = Host::start(&[]);
    let base = host.create("base", &json!({}));
    base.ok_with(&["create", "-f", "-"], &definition(PLAIN));
    base.ok(&["wait", "--for=condition=Established", "crd/things.clusters.test"]);
    for (name, a) in [("one", "x"), ("two", "y")] {
        let thing = json!({"apiVersion": "clusters.test/v1", "kind": "Thing",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"a": a, "old": "of the base"}});
        wait_until_blocking("the custom resource is served", || {
            base.run_with(&["create", "-f", "-"], &thing.to_string()).success.then_some(())
        });
    }
    let forks = ["first", "second", "third"].map(|name| host.create(name, &fork_of("base")));
    let [first, second, third] = &forks;
    let list = |kubectl: &Kubectl, selector: &str| {
        let template = "--output=jsonpath={range .items[*]}{.metadata.name} {.spec} {end}";
        kubectl.ok(&["get", "things", "--namespace=default", selector, template])
    };
    let of_base = r#"one {"a":"x","old":"of the base"} two {"a":"y","old":"of the base"} "#;
    for fork in [first, second] {
        assert_eq!(list(fork, "--selector="), of_base);
        assert_eq!(list(fork, "--field-selector=spec.a=y"), r#"two {"a":"y","old":"of the base"} "#);
    }
    // Another schema: other members, other defaults.
    first.ok_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &definition(OTHER));
    let of_other = r#"one {"a":"x","b":"new"} two {"a":"y","b":"new"} "#;
    wait_until_blocking("the other schema is served", || (list(first, "--selector=") == of_other).then_some(()));
    // One that reads its objects first after that, and one that has read them.
    for fork in [third, second, &base] {
        assert_eq!(list(fork, "--selector="), of_base);
    }
    let patch = r#"{"spec": {"a": "z"}}"#;
    second.ok(&["patch", "thing", "one", "--namespace=default", "--type=merge", "--patch", patch]);
    assert_eq!(list(second, "--field-selector=spec.a=z"), r#"one {"a":"z","old":"of the base"} "#);
    assert_eq!(list(third, "--field-selector=spec.a=z"), "");
    assert_eq!(list(first, "--selector="), of_other);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn forks_of_forks_and_of_earlier_revisions_have_what_was_there() {
    let host = Host::start(&[]);
    let base = host.create("base", &json!({}));
    make_map(&base, "early");
    let revision =
        base.ok(&["get", "configmap", "early", "--namespace=default", "--output=jsonpath={.metadata.resourceVersion}"]);
    make_map(&base, "late");
    let early =
        host.create("early", &json!({"source": {"cluster": "base", "revision": revision.parse::<u64>().unwrap()}}));
    assert_eq!(maps(&early), "configmap/early\n");
    make_map(&early, "own");
    let second = host.create("second", &fork_of("early"));
    assert_eq!(maps(&second), "configmap/early\nconfigmap/own\n");
    early.ok(&["delete", "configmap", "early", "--namespace=default"]);
    let third = host.create("third", &fork_of("early"));
    assert_eq!(maps(&third), "configmap/own\n");
    host.kubectl.ok(&["delete", "logicalclusters", "base", "early"]);
    assert_eq!(maps(&second), "configmap/early\nconfigmap/own\n");
    assert_eq!(maps(&third), "configmap/own\n");

    // A revision that is not there.
    let object = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "future"},
        "spec": {"source": {"cluster": "second", "revision": 1_000_000_000_u64}}});
    host.kubectl.ok_with(&["create", "-f", "-"], &object.to_string());
    host.wait_for("future", "Failed");
    let message = host.kubectl.ok(&["get", "logicalcluster", "future", "--output=jsonpath={.status.message}"]);
    assert!(message.contains("is in the future"), "{message}");
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn many_forks_at_once_share_one_copy() {
    let host = Host::start(&[]);
    let base = host.create("base", &json!({}));
    for n in 0..5 {
        make_map(&base, &format!("map-{n}"));
    }
    let want = maps(&base);
    thread::scope(|threads| {
        for n in 0..6 {
            let (host, want) = (&host, &want);
            threads.spawn(move || {
                let fork = host.create(&format!("fork-{n}"), &fork_of("base"));
                assert_eq!(maps(&fork), *want);
                make_map(&fork, "own");
            });
        }
    });
    assert_eq!(maps(&base), want);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn only_who_may_fork_a_cluster_can() {
    let host = Host::start(&[]);
    host.create("base", &json!({}));
    host.create("other", &json!({}));
    host.kubectl.ok(&[
        "create",
        "clusterrole",
        "creator",
        "--verb=create,get,list,patch,update",
        "--resource=logicalclusters.binnacle.dev",
    ]);
    host.kubectl.ok(&["create", "clusterrolebinding", "creator", "--clusterrole=creator", "--user=jane"]);
    let create = |name: &str, source: &str| {
        let object = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name},
            "spec": fork_of(source)});
        host.kubectl.run_with(&["create", "--as=jane", "-f", "-"], &object.to_string())
    };
    let refused = create("stolen", "base");
    assert!(refused.err.contains(r#"User "jane" cannot fork the logical cluster "base""#), "{}", refused.err);
    host.kubectl.ok(&[
        "create",
        "clusterrole",
        "forker",
        "--verb=fork",
        "--resource=logicalclusters.binnacle.dev",
        "--resource-name=base",
    ]);
    host.kubectl.ok(&["create", "clusterrolebinding", "forker", "--clusterrole=forker", "--user=jane"]);
    assert!(create("allowed", "base").success);
    assert!(!create("stolen", "other").success);

    // A source does not change, and none is added.
    let patch = |name: &str, source: &str| {
        let patch = json!({"spec": fork_of(source)}).to_string();
        host.kubectl.run(&["patch", "--as=jane", "logicalcluster", name, "--type=merge", "--patch", &patch])
    };
    for (name, source) in [("allowed", "other"), ("base", "other")] {
        let refused = patch(name, source);
        assert!(refused.err.contains("spec.source is immutable"), "{}", refused.err);
    }
    let own = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "own"},
        "spec": fork_of("own")});
    let refused = host.kubectl.run_with(&["create", "-f", "-"], &own.to_string());
    assert!(refused.err.contains("a cluster cannot be its own source"), "{}", refused.err);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn credentials_of_a_source_are_worthless_in_its_forks() {
    let host = Host::start(&[]);
    let base = host.create("base", &json!({}));
    base.ok(&["create", "serviceaccount", "robot", "--namespace=default"]);
    base.ok(&["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", "--serviceaccount=default:robot"]);
    let fork = host.create("fork", &fork_of("base"));
    let token = |kubectl: &Kubectl| kubectl.ok(&["create", "token", "robot", "--namespace=default"]).trim().to_owned();
    let ask = |kubectl: &Kubectl, token: &str| {
        let url = kubectl.ok(&["config", "view", "--output=jsonpath={.clusters[0].cluster.server}"]);
        let token = format!("--token={token}");
        let nobody = host.kubectl.with_kubeconfig("/dev/null".into());
        nobody.run(&["get", "namespaces", "--server", &url, "--insecure-skip-tls-verify", &token])
    };
    let (of_base, of_fork) = (token(&base), token(&fork));
    for (kubectl, token, is_valid) in
        [(&base, &of_base, true), (&fork, &of_fork, true), (&fork, &of_base, false), (&base, &of_fork, false)]
    {
        let outcome = ask(kubectl, token);
        assert_eq!(outcome.success, is_valid, "{outcome:?}");
        assert!(is_valid || outcome.err.contains("You must be logged in"), "{outcome:?}");
    }
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn fork_with_a_new_identity_is_another_cluster() {
    let host = Host::start(&[]);
    let base = host.create("base", &json!({}));
    let token = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}});
    base.ok_with(&["create", "-f", "-"], &token.to_string());
    base.ok(&["create", "secret", "generic", "other", "--namespace=kube-system"]);
    let same = host.create("same", &fork_of("base"));
    let renewed = host.create("renewed", &json!({"source": {"cluster": "base", "newIdentity": true}}));
    let uid = |kubectl: &Kubectl| kubectl.ok(&["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"]);
    assert_eq!(uid(&same), uid(&base));
    assert_ne!(uid(&renewed), uid(&base));
    let secrets = |kubectl: &Kubectl| kubectl.ok(&["get", "secrets", "--namespace=kube-system", "--output=name"]);
    assert_eq!(secrets(&same), "secret/bootstrap-token-abcdef\nsecret/other\n");
    assert_eq!(secrets(&renewed), "secret/other\n");
    // The new identity stays.
    let before = uid(&renewed);
    host.kubectl.ok(&[
        "patch",
        "logicalcluster",
        "renewed",
        "--type=merge",
        "--patch",
        r#"{"spec": {"suspended": true}}"#,
    ]);
    host.wait_for("renewed", "Suspended");
    host.kubectl.ok(&[
        "patch",
        "logicalcluster",
        "renewed",
        "--type=merge",
        "--patch",
        r#"{"spec": {"suspended": false}}"#,
    ]);
    host.wait_for("renewed", "Ready");
    assert_eq!(uid(&renewed), before);
}

/// Everything of a fork and of its base is gone with the last fork, whatever the engine; a base without forks is kept
/// for none.
/// Returns the keys of all clusters and forks, without the objects that all new clusters share.
fn keys_of_clusters(etcd: &Etcd) -> Vec<String> {
    let keys = etcd.ctl(0, &["get", "--prefix", "/registry/logicalclusters/", "--keys-only"]);
    let is_of_one = |key: &&str| !key.is_empty() && !key.contains("/initial-objects");
    keys.lines().filter(is_of_one).map(str::to_owned).collect()
}

#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn nothing_of_deleted_forks_stays_in_the_store() {
    let etcd = Etcd::single();
    let host = Host::start(&[&etcd.servers()]);
    let keys = |part: &str| keys_of_clusters(&etcd).into_iter().filter(|key| key.contains(part)).count();
    let base = host.create("base", &json!({}));
    make_map(&base, "shared");
    for name in ["one", "two"] {
        let fork = host.create(name, &fork_of("base"));
        make_map(&fork, "own");
        assert_eq!(maps(&fork), "configmap/own\nconfigmap/shared\n");
    }
    // Both have the same base, with one copy of the object. It waits for further forks.
    assert_eq!((keys("/base-records/"), keys("/base-users/"), keys("/configmaps/default/shared")), (1, 3, 2));
    host.kubectl.ok(&["delete", "logicalclusters", "one", "two"]);
    assert_eq!((keys("/base-records/"), keys("/base-users/"), keys("/configmaps/default/shared")), (1, 1, 2));
    // A base of other contents takes its place.
    make_map(&base, "later");
    let two = host.create("two", &fork_of("base"));
    assert_eq!((keys("/base-records/"), keys("/base-users/"), keys("/configmaps/default/shared")), (1, 2, 2));
    host.kubectl.ok(&["delete", "logicalcluster", "base"]);
    assert_eq!((keys("/base-records/"), keys("/base-users/"), keys("/configmaps/default/shared")), (1, 1, 1));
    assert_eq!(maps(&two), "configmap/later\nconfigmap/shared\n");
    host.kubectl.ok(&["delete", "logicalcluster", "two"]);
    assert_eq!(keys(""), 0);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn backup_of_a_fork_has_all_its_objects() {
    let host = Host::start(&[]);
    let base = host.create("base", &json!({}));
    for name in ["shared", "deleted"] {
        make_map(&base, name);
    }
    let fork = host.create("fork", &fork_of("base"));
    make_map(&fork, "own");
    fork.ok(&["delete", "configmap", "deleted", "--namespace=default"]);
    let kubeconfig = format!("--kubeconfig={}", host.server.kubeconfig().display());
    let file = host.server.temp().path().join("fork.backup");
    let file = file.to_str().unwrap();
    for arguments in [["backup", "fork", file], ["restore", "restored", file]] {
        let outcome = Tool::run(&[&["cluster", &kubeconfig], &arguments[..]].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    assert_eq!(maps(&host.administrator("restored")), "configmap/own\nconfigmap/shared\n");
    // The command makes forks, too.
    let outcome = Tool::run(&["cluster", &kubeconfig, "fork", "fork", "again", "--new-identity"]);
    assert!(outcome.out.ends_with("/clusters/again\n"), "{outcome:?}");
    assert_eq!(maps(&host.administrator("again")), "configmap/own\nconfigmap/shared\n");
}

/// A server that is killed at any moment of a fork or of a deletion continues it after its restart, and leaves nothing.
#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn forks_survive_kills() {
    let etcd = Etcd::single();
    let mut host = Host::start(&[&etcd.servers()]);
    let base = host.create("base", &json!({}));
    let filler = json!({"apiVersion": "v1", "kind": "List", "items": (0..500).map(|n| json!({"apiVersion": "v1",
        "kind": "ConfigMap", "metadata": {"name": format!("filler-{n}"), "namespace": "kube-public"}})).collect::<Vec<_>>()});
    base.ok_with(&["create", "-f", "-"], &filler.to_string());
    for (n, milliseconds) in [5, 25, 60, 110, 180].into_iter().enumerate() {
        // Each fork has contents of its own, and is copied.
        make_map(&base, &format!("map-{n}"));
        let fork = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster",
            "metadata": {"name": format!("fork-{n}")}, "spec": fork_of("base")});
        host.kubectl.ok_with(&["create", "-f", "-"], &fork.to_string());
        thread::sleep(Duration::from_millis(milliseconds));
        host.server.kill();
        host.server.restart();
        let fork = host.administrator(&format!("fork-{n}"));
        assert_eq!(maps(&fork), (0..=n).map(|n| format!("configmap/map-{n}\n")).collect::<String>());
        let fillers = fork.ok(&["get", "configmaps", "--namespace=kube-public", "--output=name"]);
        assert_eq!(fillers.lines().count(), 500);
    }
    let all = "base fork-0 fork-1 fork-2 fork-3 fork-4".split(' ');
    for (name, milliseconds) in all.zip([10, 30, 60, 0, 90, 20]) {
        host.kubectl.ok(&["delete", "logicalcluster", name, "--wait=false"]);
        thread::sleep(Duration::from_millis(milliseconds));
        host.server.kill();
        host.server.restart();
    }
    wait_until_blocking("all clusters are deleted", || {
        host.kubectl.run(&["get", "logicalclusters", "--output=name"]).out.is_empty().then_some(())
    });
    assert_eq!(keys_of_clusters(&etcd), Vec::<String>::new());
}
