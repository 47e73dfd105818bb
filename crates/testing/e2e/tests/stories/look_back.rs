//! Look back: reads of a server, or of a logical cluster, as it was at an earlier revision.

use std::time::SystemTime;

use binnacle_testkit::{Etcd, Kubectl, TempDir, Tool, wait_until_blocking};
use serde_json::{Value, json};

use crate::logical_cluster_host::{Host, make_map, maps};

/// Kubectl with the server's URL followed by a path.
struct Past<'a> {
    kubectl: &'a Kubectl,
    server: String,
}

impl<'a> Past<'a> {
    fn of(host: &Host, kubectl: &'a Kubectl, path: &str) -> Self {
        Self { kubectl, server: format!("--server=https://{}{path}", host.server.address) }
    }

    fn ok(&self, words: &[&str]) -> String {
        self.kubectl.ok(&[words, &[&self.server, "--namespace=default"]].concat())
    }

    fn fails(&self, words: &[&str]) -> String {
        self.kubectl.fails(&[words, &[&self.server, "--namespace=default"]].concat())
    }

    fn maps(&self) -> String {
        self.ok(&["get", "configmaps", "--output=name"])
    }
}

/// Creates a config map and returns the revision with it.
fn revision_with(kubectl: &Kubectl, name: &str) -> u64 {
    make_map(kubectl, name);
    let version = ["get", "configmap", name, "--namespace=default", "--output=jsonpath={.metadata.resourceVersion}"];
    kubectl.ok(&version).parse().unwrap()
}

fn delete(kubectl: &Kubectl, name: &str) {
    kubectl.ok(&["delete", "configmap", name, "--namespace=default"]);
}

fn shows_earlier_revisions(host: &Host) {
    let kubectl = &host.kubectl;
    let first = revision_with(kubectl, "one");
    kubectl.ok(&["label", "configmap", "one", "--namespace=default", "color=blue"]);
    let second = revision_with(kubectl, "two");
    delete(kubectl, "one");
    kubectl.ok_with(&["create", "-f", "-"], crate::logical_cluster_host::THINGS);
    kubectl.ok(&["wait", "--for=condition=Established", "crd/things.clusters.test", "--timeout=30s"]);
    let with_things = revision_with(kubectl, "three");
    kubectl.ok(&["delete", "crd", "things.clusters.test", "--timeout=30s"]);
    let at = |revision: u64| Past::of(host, kubectl, &format!("/at/{revision}"));
    assert_eq!(at(first).maps(), "configmap/one\n");
    assert_eq!(at(second).maps(), "configmap/one\nconfigmap/two\n");
    assert_eq!(at(with_things).maps(), "configmap/three\nconfigmap/two\n");
    let blue = ["get", "configmaps", "--selector=color=blue", "--output=name"];
    assert_eq!((at(first).ok(&blue), at(second).ok(&blue)), (String::new(), "configmap/one\n".to_owned()));
    let object: Value = serde_json::from_str(&at(first).ok(&["get", "configmap", "one", "--output=json"])).unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], json!(first.to_string()));
    assert!(at(second).ok(&["describe", "configmap", "one"]).contains("color=blue"));
    // Definitions and discovery are those of the time.
    assert_eq!(at(with_things).ok(&["get", "things", "--output=name"]), "");
    assert!(at(second).fails(&["get", "things"]).contains("the server doesn't have a resource type"));
    let all =
        ["get", "--raw", &format!("/at/{first}/api/v1/namespaces/default/configmaps?limit=500")].map(str::to_owned);
    let list: Value = serde_json::from_str(&kubectl.ok(&all.each_ref().map(String::as_str))).unwrap();
    assert_eq!(list["metadata"]["resourceVersion"], json!(first.to_string()));

    let only_read = format!("objects as of revision {first} can only be read");
    for words in [
        vec!["create", "configmap", "x"],
        vec!["delete", "configmap", "one"],
        vec!["label", "configmap", "one", "a=b"],
        vec!["get", "configmaps", "--watch-only"],
        vec!["auth", "can-i", "get", "pods"],
    ] {
        let refused = at(first).fails(&words);
        assert!(refused.contains(&only_read), "{words:?}: {refused}");
    }
    for (revision, want) in [
        ("0", "revisions begin with 1"),
        ("99999999", "is in the future"),
        ("soon", "is no revision and no RFC 3339 time"),
    ] {
        let refused = kubectl.fails(&["get", "--raw", &format!("/at/{revision}/api/v1/namespaces")]);
        assert!(refused.contains(want), "{refused}");
    }
    delete(kubectl, "two");
    delete(kubectl, "three");
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn shows_the_server_at_earlier_revisions() {
    shows_earlier_revisions(&Host::start(&["--history-retention=1h"]));
}

#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn shows_etcd_at_earlier_revisions() {
    let etcd = Etcd::single();
    shows_earlier_revisions(&Host::start(&[&etcd.servers(), "--history-retention=1h"]));
}

/// A time is as good as a revision.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn shows_the_server_at_earlier_times() {
    let host = Host::start(&["--history-retention=1h"]);
    let kubectl = &host.kubectl;
    let seconds = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let date = |seconds: u64| {
        let output = std::process::Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%FT%TZ"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
    };
    make_map(kubectl, "one");
    let with_one = seconds() + 1;
    // The sample of that second, and its end.
    wait_until_blocking("the second is over", || (seconds() > with_one + 1).then_some(()));
    delete(kubectl, "one");
    let past = Past::of(&host, kubectl, &format!("/at/{}", date(with_one)));
    assert_eq!(past.maps(), "configmap/one\n");
    assert_eq!(maps(kubectl), "");
    for (seconds, want) in [(1_000_000_000, "times are known since"), (seconds() + 3600, "is in the future")] {
        let refused = kubectl.fails(&["get", "--raw", &format!("/at/{}/api/v1/namespaces", date(seconds))]);
        assert!(refused.contains(want), "{refused}");
    }
}

/// `binnacle undelete` puts objects back, on a server and in a logical cluster.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn deleted_objects_are_put_back() {
    let host = Host::start(&["--logical-clusters", "--history-retention=1h"]);
    let a = host.create("a", &json!({}));
    for (kubectl, kubeconfig) in [(&host.kubectl, host.server.kubeconfig()), (&a, host.kubeconfig("a"))] {
        for name in ["one", "two", "three"] {
            make_map(kubectl, name);
        }
        kubectl.ok(&["label", "configmap", "two", "three", "--namespace=default", "color=red"]);
        kubectl.ok(&["create", "clusterrole", "reader", "--verb=get", "--resource=pods"]);
        let revision = revision_with(kubectl, "last").to_string();
        delete(kubectl, "one");
        delete(kubectl, "two");
        kubectl.ok(&["delete", "clusterrole", "reader"]);
        kubectl.ok(&["patch", "configmap", "three", "--namespace=default", "--patch", r#"{"data": {"of": "new"}}"#]);
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let undelete =
            |arguments: &[&str]| Tool::run(&[&["undelete", &kubeconfig, "--at", &revision], arguments].concat());
        let done = undelete(&["configmaps", "one"]);
        assert_eq!((done.code, done.out.as_str()), (Some(0), "configmaps/one in default: created\n"), "{done:?}");
        let done = undelete(&["clusterroles.rbac.authorization.k8s.io", "reader"]);
        assert_eq!((done.code, done.out.as_str()), (Some(0), "clusterroles/reader: created\n"), "{done:?}");
        let red = ["configmaps", "--all", "--namespace=default", "--selector=color=red"];
        let done = undelete(&red);
        let want = "configmaps/three in default: exists, not changed\nconfigmaps/two in default: created\n";
        assert_eq!((done.code, done.out.as_str()), (Some(0), want), "{done:?}");
        let done = undelete(&[&red[..], &["--overwrite"]].concat());
        assert!(done.out.contains("configmaps/three in default: set back\n"), "{done:?}");
        let of = ["get", "configmap", "three", "--namespace=default", "--output=jsonpath={.data.of}"];
        assert_eq!(kubectl.ok(&of), "three");
        assert_eq!(maps(kubectl), "configmap/last\nconfigmap/one\nconfigmap/three\nconfigmap/two\n");
        for (arguments, want) in [
            (["configmaps", "never"], "\"never\" not found"),
            (["gadgets", "one"], "there was no resource gadgets at that time"),
        ] {
            let refused = undelete(&arguments);
            assert!(refused.code == Some(1) && refused.err.contains(want), "{refused:?}");
        }
    }
}

/// Times before the start of the process are those of the servers' leases.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn times_survive_a_restart() {
    let mut host = Host::start(&["--history-retention=1h"]);
    make_map(&host.kubectl, "one");
    let renewed = |host: &Host| {
        let path = "--output=jsonpath={.items[*].spec.renewTime}";
        host.kubectl.ok(&[
            "get",
            "leases",
            "--namespace=kube-system",
            "--selector=apiserver.kubernetes.io/identity",
            path,
        ])
    };
    let first = renewed(&host);
    let second = wait_until_blocking("the lease is renewed", || Some(renewed(&host)).filter(|now| *now != first));
    let noticed = SystemTime::now();
    // A time is the end of its second.
    wait_until_blocking("the second is over", || {
        noticed.elapsed().is_ok_and(|age| age.as_millis() > 1100).then_some(())
    });
    delete(&host.kubectl, "one");
    host.server.restart();
    let at = format!("/at/{}Z", second.split('.').next().unwrap());
    let past = Past::of(&host, &host.kubectl, &at);
    assert_eq!(past.maps(), "configmap/one\n");
    assert_eq!(maps(&host.kubectl), "");
}

/// Today's permissions decide, and a permission to look back is needed besides.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn looks_back_with_todays_permissions() {
    let temp = TempDir::new();
    let tokens = temp.join("tokens.csv");
    std::fs::write(&tokens, "of-jane,jane,1\n").unwrap();
    let host = Host::start(&["--history-retention=1h", &format!("--token-auth-file={tokens}")]);
    let revision = revision_with(&host.kubectl, "one");
    let path = format!("/at/{revision}/api/v1/namespaces/default/configmaps");
    let as_jane = |path: &str| host.kubectl.run(&["get", "--raw", path, "--as=jane"]);
    let refused = as_jane(&path);
    assert!(refused.err.contains("User \"jane\" cannot list resource \"configmaps\""), "{refused}");
    host.kubectl.ok(&["create", "clusterrole", "reader", "--verb=list", "--resource=configmaps"]);
    host.kubectl.ok(&["create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=jane"]);
    let refused = wait_until_blocking("jane may list", || {
        Some(as_jane(&path)).filter(|outcome| outcome.err.contains("cannot get path"))
    });
    assert!(refused.err.contains("User \"jane\" cannot get path \"/at\""), "{refused}");
    host.kubectl.ok(&["create", "clusterrole", "past", "--verb=get", "--non-resource-url=/at"]);
    host.kubectl.ok(&["create", "clusterrolebinding", "past", "--clusterrole=past", "--user=jane"]);
    let shown = wait_until_blocking("jane may look back", || Some(as_jane(&path)).filter(|outcome| outcome.success));
    assert!(shown.out.contains("\"one\""), "{shown}");
    let refused = as_jane(&format!("/at/{revision}/api/v1/secrets"));
    assert!(refused.err.contains("cannot list resource \"secrets\""), "{refused}");
}

/// The past of a logical cluster, by both forms of its path, which shows nothing of the host.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn shows_a_logical_cluster_at_earlier_revisions() {
    let host = Host::start(&["--history-retention=1h"]);
    let a = host.create("a", &json!({}));
    make_map(&host.kubectl, "of-host");
    let revision = revision_with(&a, "one");
    delete(&a, "one");
    for path in [format!("/clusters/a@{revision}"), format!("/clusters/a/at/{revision}")] {
        assert_eq!(Past::of(&host, &a, &path).maps(), "configmap/one\n", "{path}");
    }
    // The history of a cluster begins with it.
    let before = host.kubectl.run(&["get", "--raw", "/clusters/a@5/api/v1/namespaces"]);
    assert!(before.err.contains("revision 5 is no longer kept: the oldest one is "), "{before}");
    assert_eq!(maps(&a), "");
}

/// Without the flag, there is no past, and history that is compacted is reported.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn compacted_revisions_are_gone() {
    let off = Host::start(&[]);
    assert!(off.kubectl.fails(&["get", "--raw", "/at/5/api/v1/namespaces"]).contains("NotFound"));
    let host = Host::start(&["--history-retention=2s", "--etcd-compaction-interval=1s"]);
    let revision = revision_with(&host.kubectl, "one");
    let path = format!("/at/{revision}/api/v1/namespaces/default/configmaps");
    assert!(host.kubectl.ok(&["get", "--raw", &path]).contains("\"one\""));
    let gone = wait_until_blocking("the revision is compacted", || {
        make_map(&host.kubectl, "more");
        delete(&host.kubectl, "more");
        let outcome = host.kubectl.run(&["get", "--raw", &path]);
        (!outcome.success).then_some(outcome.err)
    });
    assert!(gone.contains(&format!("revision {revision} is no longer kept: the oldest one is ")), "{gone}");
}
