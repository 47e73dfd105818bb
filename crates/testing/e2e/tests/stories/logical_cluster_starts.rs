//! Starts of logical clusters: what they need not do, nobody notices.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_testkit::{Etcd, Kubectl};
use serde_json::{Value, json};

use crate::logical_cluster_host::{Host, THINGS, make_map, maps};

/// The resources whose objects later clusters do not create one by one.
const EVERYWHERE: &str = "namespaces,apiservices,flowschemas,prioritylevelconfigurations,clusterroles,clusterrolebindings,\
                          roles,rolebindings,priorityclasses";

/// The objects that every cluster has, by kind and name, without UIDs, times and resourceVersions; and the UIDs of the
/// namespaces.
fn objects(kubectl: &Kubectl) -> (BTreeMap<(String, String), Value>, BTreeSet<String>) {
    let list = kubectl.ok(&["get", EVERYWHERE, "--all-namespaces", "--output=json", "--show-managed-fields"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let (mut objects, mut uids) = (BTreeMap::new(), BTreeSet::new());
    for mut object in list["items"].as_array().unwrap().clone() {
        let name = ["kind", "/metadata/namespace", "/metadata/name"]
            .map(|path| object.pointer(&format!("/{}", path.trim_start_matches('/'))).and_then(Value::as_str));
        let [kind, namespace, name] = name.map(|text| text.unwrap_or_default().to_owned());
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        let uid = metadata.remove("uid").unwrap().as_str().unwrap().to_owned();
        if kind == "Namespace" {
            uids.insert(uid);
        }
        without_times(&mut object);
        objects.insert((kind, format!("{namespace}/{name}")), object);
    }
    (objects, uids)
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    "creationTimestamp" | "time" | "lastTransitionTime" => {
                        assert!(value.as_str().is_some_and(|time| time.starts_with("20")), "{name} {value}");
                        *value = Value::Null;
                    }
                    _ => without_times(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn new_clusters_have_the_objects_of_a_server_as_their_own() {
    for flags in [&[][..], &["--storage-media-type=application/json"]] {
        let host = Host::start(flags);
        let (mut expected, mut uids) = objects(&host.kubectl);
        expected.retain(|(_, name), _| !name.contains("binnacle.dev") && name != "/logical-clusters");
        assert!(expected.len() > 150, "{} objects", expected.len());
        let [first, later] = ["a", "b"].map(|name| host.create(name, &json!({})));
        for cluster in [&first, &later] {
            let (found, own) = objects(cluster);
            let names = |objects: &BTreeMap<_, _>| objects.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&found), names(&expected));
            for (name, object) in &found {
                assert_eq!(object, &expected[name], "{name:?}");
            }
            assert_eq!(own.len(), 4);
            assert!(uids.is_disjoint(&own), "UIDs of another cluster");
            uids.extend(own);
        }
        // They are ordinary objects.
        later.ok(&["label", "clusterrole", "view", "color=blue"]);
        later.ok(&["delete", "clusterrole", "edit"]);
        assert!(later.ok(&["get", "clusterroles", "--selector=color=blue", "--output=name"]).contains("/view\n"));
        assert!(!later.ok(&["get", "clusterroles", "--output=name"]).contains("/edit\n"));
        assert!(first.ok(&["get", "clusterrole", "edit", "--output=name"]).contains("/edit\n"));
        make_map(&first, "map");
    }
}

/// The objects of all new clusters are stored once, also by later processes, and remain when the clusters are deleted.
#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn initial_objects_are_stored_once() {
    let etcd = Etcd::single();
    let mut host = Host::start(&[&etcd.servers()]);
    let keys = |part: &str| {
        let all = etcd.ctl(0, &["get", "--prefix", "/registry/logicalclusters/", "--keys-only"]);
        all.lines().filter(|key| key.contains(part)).count()
    };
    host.create("a", &json!({}));
    assert_eq!((keys("/base-records/"), keys("/base-users/"), keys("/clusterroles/view")), (1, 2, 1));
    host.server.kill();
    host.server.restart();
    let b = host.create("b", &json!({}));
    b.ok(&["label", "clusterrole", "view", "color=blue"]);
    assert_eq!((keys("/base-records/"), keys("/base-users/"), keys("/clusterroles/view")), (1, 3, 2));
    host.kubectl.ok(&["delete", "logicalclusters", "a", "b"]);
    assert_eq!((keys("/base-records/"), keys("/base-users/"), keys("/clusterroles/view")), (1, 1, 1));
    let c = host.create("c", &json!({}));
    assert_eq!(c.ok(&["get", "clusterroles", "--selector=color=blue", "--output=name"]), "");
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn woken_cluster_reads_roles_when_a_decision_needs_them() {
    let host = Host::start(&[]);
    let a = host.create("a", &json!({"idleAfter": "1s"}));
    a.ok_with(&["create", "-f", "-"], THINGS);
    a.ok(&["wait", "--for=condition=Established", "crd/things.clusters.test", "--timeout=30s"]);
    a.ok_with(&["create", "-f", "-"], r#"{"apiVersion":"clusters.test/v1","kind":"Thing","metadata":{"name":"t"}}"#);
    a.ok(&["create", "serviceaccount", "robot", "--namespace=default"]);
    a.ok(&["create", "clusterrole", "reader", "--verb=get,list", "--resource=configmaps"]);
    a.ok(&["create", "clusterrolebinding", "robot", "--clusterrole=reader", "--serviceaccount=default:robot"]);
    make_map(&a, "one");
    let token = a.ok(&["create", "token", "robot", "--namespace=default"]);
    let roles = a.ok(&["get", "clusterroles", "--output=name"]);
    let caches = |kubectl: &Kubectl| {
        let metrics = kubectl.ok(&["get", "--raw", "/clusters/a/metrics"]);
        let used = metrics.lines().filter(|line| line.starts_with("apiserver_watch_cache_initializations_total{"));
        used.filter_map(|line| Some(line.split_once("resource=\"")?.1.split_once('"')?.0.to_owned()))
            .collect::<BTreeSet<_>>()
    };
    let unused = ["clusterroles", "clusterrolebindings", "roles", "rolebindings", "priorityclasses", "pods"];
    host.wait_for_awake(0);
    // The definition is served to the request that wakes the cluster.
    assert_eq!(a.ok(&["get", "things.clusters.test", "--output=name"]), "thing.clusters.test/t\n");
    let used = caches(&a);
    assert!(used.contains("apiservices") && unused.iter().all(|unused| !used.contains(*unused)), "{used:?}");
    // A list reads all objects, whether anything used the resource before or not.
    assert_eq!(a.ok(&["get", "clusterroles", "--output=name"]), roles);
    host.wait_for_awake(0);
    // The first request is one that roles decide about.
    let nobody = host.server.temp().path().join("nobody.kubeconfig");
    std::fs::write(&nobody, "").unwrap();
    let robot = host.kubectl.with_kubeconfig(nobody);
    let server = format!("--server=https://{}/clusters/a", host.server.address);
    let token = format!("--token={}", token.trim());
    let flags = [server.as_str(), &token, "--insecure-skip-tls-verify", "--namespace=default"];
    let run = |words: &[&str]| robot.run(&[words, &flags].concat());
    let got = run(&["get", "configmaps", "--output=name"]);
    assert_eq!((got.success, got.out.as_str()), (true, "configmap/one\n"), "{got}");
    let refused = run(&["delete", "configmap", "one"]);
    assert!(!refused.success && refused.err.contains("Forbidden"), "{refused}");
    assert!(caches(&a).contains("clusterroles"));
    host.wait_for_awake(0);
    // Readiness includes what nothing needed until now.
    assert_eq!(a.ok(&["get", "--raw", "/clusters/a/readyz/informer-sync"]), "ok");
    assert_eq!(maps(&a), "configmap/one\n");
}
