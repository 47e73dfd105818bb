//! Logical clusters: whole Kubernetes APIs in one process, which see nothing of each other.

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Etcd, Kubelet, wait_until_blocking};
use serde_json::{Value, json};

use crate::logical_cluster_host::{Host, THINGS, make_map, maps};

const SECRETS: &str = "{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{resources: \
                       [secrets], providers: [{aescbc: {keys: [{name: k, secret: \
                       AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}]}}]}]}";

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn clusters_see_nothing_of_each_other() {
    let host = Host::start(&[]);
    let [a, b] = ["a", "b"].map(|name| host.create(name, &json!({})));
    make_map(&a, "of-a");
    make_map(&b, "of-b");
    make_map(&host.kubectl, "of-host");
    a.ok_with(&["create", "-f", "-"], THINGS);
    a.ok(&["wait", "--for=condition=Established", "crd/things.clusters.test", "--timeout=30s"]);
    a.ok_with(&["create", "-f", "-"], r#"{"apiVersion":"clusters.test/v1","kind":"Thing","metadata":{"name":"t"}}"#);
    let own = [(&a, "of-a"), (&b, "of-b"), (&host.kubectl, "of-host")];
    for (kubectl, map) in own {
        assert_eq!(maps(kubectl), format!("configmap/{map}\n"));
        let namespaces = kubectl.ok(&["get", "namespaces", "--output=name"]);
        assert!(namespaces.contains("namespace/kube-system\n"), "{namespaces}");
        assert_eq!(namespaces.contains("logical-clusters"), map == "of-host");
    }
    assert!(b.fails(&["get", "things"]).contains("the server doesn't have a resource type"));
    assert!(host.kubectl.fails(&["get", "things"]).contains("the server doesn't have a resource type"));
    assert!(a.fails(&["get", "logicalclusters"]).contains("the server doesn't have a resource type"));
    assert!(a.ok(&["explain", "pods.spec.containers"]).contains("List of containers belonging to the pod."));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn credentials_are_for_one_cluster() {
    let (host, [a, b], files) = tokio::task::block_in_place(|| {
        let host = Host::start(&[]);
        let clusters = ["a", "b"].map(|name| host.create(name, &json!({})));
        let files = ["a", "b"].map(|name| std::fs::read_to_string(host.kubeconfig(name)).unwrap());
        (host, clusters, files)
    });
    // A certificate is checked for each request, also on a connection that is kept.
    let list = |cluster: &str| format!("{cluster}/api/v1/namespaces/default/configmaps");
    for (n, file) in files.iter().enumerate() {
        let mut client = host.server.connect(&Handshake::of_kubeconfig(file).alpn(&["http/1.1"])).await;
        for (cluster, accepted) in
            [("/clusters/a", n == 0), ("/clusters/b", n == 1), ("", false), ("/clusters/a", n == 0)]
        {
            let answer = client.get(&list(cluster)).await.unwrap();
            assert_eq!(answer.status, if accepted { 200 } else { 401 }, "{n} {cluster} {}", answer.body);
        }
    }
    tokio::task::block_in_place(|| {
        for (cluster, kubectl) in [("a", &a), ("b", &b), ("", &host.kubectl)] {
            kubectl.ok(&["create", "serviceaccount", "robot", "--namespace=default"]);
            let token = kubectl.ok(&["create", "token", "robot", "--namespace=default"]);
            let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "spec": {"token": token.trim()}});
            for (other, reviewer) in [("a", &a), ("b", &b), ("", &host.kubectl)] {
                let answer = reviewer.ok_with(&["create", "-f", "-", "--output=json"], &review.to_string());
                let answer: Value = serde_json::from_str(&answer).unwrap();
                let authenticated = answer["status"]["authenticated"].as_bool().unwrap_or_default();
                assert_eq!(authenticated, cluster == other, "a token of {cluster:?} in {other:?}: {answer}");
            }
        }
        let discovery = a.ok(&["get", "--raw", "/clusters/a/.well-known/openid-configuration"]);
        assert!(discovery.contains("/clusters/a\""), "{discovery}");
    });
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn users_of_the_host_need_a_permission() {
    let temp = binnacle_testkit::TempDir::new();
    let tokens = temp.join("tokens.csv");
    std::fs::write(&tokens, "of-jane,jane,1\nof-joe,joe,2\n").unwrap();
    let host = Host::start(&[&format!("--token-auth-file={tokens}")]);
    let a = host.create("a", &json!({}));
    host.create("b", &json!({}));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "access"},
        "rules": [{"apiGroups": ["binnacle.dev"], "resources": ["logicalclusters/access"], "verbs": ["impersonate"],
            "resourceNames": ["a"]}]});
    host.kubectl.ok_with(&["create", "-f", "-"], &role.to_string());
    host.kubectl.ok(&["create", "clusterrolebinding", "access", "--clusterrole=access", "--user=jane"]);
    let server = |cluster: &str| format!("--server=https://{}/clusters/{cluster}", host.server.address);
    let anonymous = temp.join("anonymous.kubeconfig");
    std::fs::write(&anonymous, "").unwrap();
    let other = host.kubectl.with_kubeconfig(anonymous.into());
    let run = |cluster: &str, token: &str| {
        let flags = [&server(cluster), &format!("--token={token}"), "--insecure-skip-tls-verify"].map(str::to_owned);
        let mut words = vec!["auth", "whoami", "--output=json"];
        words.extend(flags.iter().map(String::as_str));
        other.run(&words)
    };
    let who = wait_until_blocking("jane has access", || Some(run("a", "of-jane")).filter(|outcome| outcome.success));
    let who: Value = serde_json::from_str(&who.out).unwrap();
    let groups = json!(["system:masters", "system:authenticated"]);
    assert_eq!(
        (&who["status"]["userInfo"]["username"], &who["status"]["userInfo"]["groups"]),
        (&json!("jane"), &groups)
    );
    for (cluster, token) in [("b", "of-jane"), ("a", "of-joe"), ("a", "of-nobody"), ("a", "")] {
        let outcome = run(cluster, token);
        assert!(!outcome.success && !outcome.err.contains("jane"), "{cluster} {token} {outcome}");
    }
    assert!(a.ok(&["auth", "whoami"]).contains("kubernetes-admin"));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn idle_cluster_sleeps_until_a_request() {
    let host = Host::start(&[]);
    let [a, b] = ["a", "b"].map(|name| host.create(name, &json!({"idleAfter": "1s"})));
    make_map(&a, "one");
    make_map(&b, "two");
    let mut watch = a.spawn(&["get", "configmaps", "--namespace=default", "--watch", "--output=name"]);
    watch.until("configmap/one");
    host.wait_for_awake(1);
    // The watch keeps its cluster awake.
    make_map(&a, "later");
    watch.until("configmap/later");
    assert_eq!(maps(&b), "configmap/two\n");
    drop(watch);
    // A cluster that wakes is no server that starts, which would restore the role.
    a.ok(&["delete", "clusterrole", "view"]);
    host.wait_for_awake(0);
    assert_eq!(maps(&a), "configmap/later\nconfigmap/one\n");
    assert!(a.fails(&["get", "clusterrole", "view"]).contains("NotFound"));
}

/// The memory of clusters that anybody can wake has a bound.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn unused_clusters_beyond_the_limit_sleep() {
    let host = Host::start(&["--max-awake-logical-clusters=1"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| host.create(name, &json!({"idleAfter": "0s"})));
    host.wait_for_awake(1);
    for kubectl in [&a, &b, &c] {
        assert_eq!(maps(kubectl), "");
    }
    host.wait_for_awake(1);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn suspended_cluster_refuses_requests() {
    let host = Host::start(&[]);
    let a = host.create("a", &json!({}));
    let suspend = |suspended: bool| {
        let patch = json!({"spec": {"suspended": suspended}}).to_string();
        host.kubectl.ok(&["patch", "logicalclusters/a", "--type=merge", "--patch", &patch]);
        host.wait_for("a", if suspended { "Suspended" } else { "Ready" });
    };
    make_map(&a, "one");
    suspend(true);
    let refused = a.fails(&["get", "--raw", "/clusters/a/api/v1/namespaces"]);
    assert!(refused.contains("(ServiceUnavailable): the logical cluster is suspended"), "{refused}");
    host.wait_for_awake(0);
    suspend(false);
    assert_eq!(maps(&a), "configmap/one\n");
}

/// Clusters survive a crash of the host, and are not started before a request.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn clusters_survive_a_killed_host() {
    let mut host = Host::start(&[]);
    let [a, b] = ["a", "b"].map(|name| host.create(name, &json!({})));
    make_map(&a, "one");
    make_map(&b, "two");
    host.server.kill();
    host.server.restart();
    wait_until_blocking("the clusters are served", || a.run(&["get", "namespaces"]).success.then_some(()));
    assert_eq!(maps(&a), "configmap/one\n");
    host.wait_for_awake(1);
    assert_eq!(maps(&b), "configmap/two\n");
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn rejects_names_that_are_no_labels() {
    let host = Host::start(&[]);
    host.create("fine", &json!({}));
    for name in ["a.b", &"a".repeat(64)] {
        let object =
            json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name}});
        let refused = host.kubectl.run_with(&["create", "-f", "-"], &object.to_string());
        assert!(!refused.success && refused.err.contains("metadata.name"), "{refused}");
    }
}

/// Kubelets of a cluster trust its authority: the host shows them a certificate of it.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn reaches_kubelets_of_a_cluster() {
    let host = Host::start(&[]);
    let [a, b] = ["a", "b"].map(|name| host.create(name, &json!({})));
    let authority = host.kubectl.ok(&[
        "get",
        "secret",
        "a-keys",
        "--namespace=logical-clusters",
        r#"--output=go-template={{index .data "ca.crt" | base64decode}}"#,
    ]);
    let kubelet = Kubelet::trusting(&authority);
    kubelet.log("hello from a");
    for kubectl in [&a, &b] {
        kubectl.ok(&["create", "serviceaccount", "default"]);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        kubectl.ok_with(&["create", "-f", "-"], &node.to_string());
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}}}});
        kubectl.ok(&["patch", "node", "n", "--subresource=status", "--type=merge", "-p", &status.to_string()]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "registry.test/app:1"}]}});
        kubectl.ok_with(&["create", "-f", "-"], &pod.to_string());
        let running = r#"{"status": {"phase": "Running"}}"#;
        kubectl.ok(&["patch", "pod", "p", "--subresource=status", "--type=merge", "-p", running]);
    }
    assert_eq!(a.ok(&["logs", "p"]), "hello from a\n");
    assert_eq!(a.ok(&["exec", "p", "--", "sh", "-c", "echo done"]), "done\n");
    // The other cluster has the same node, and no certificate that its kubelet accepts.
    let refused = b.fails(&["logs", "p"]);
    // The alert is lost if the kubelet has closed the connection before the request was sent.
    let signs = ["certificate", "alert", "EOF"];
    assert!(signs.iter().any(|sign| refused.contains(sign)), "{refused}");
}

/// Requests in clusters are audited as those of the host, and their events have the name of the cluster.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn audit_events_have_the_cluster() {
    let temp = binnacle_testkit::TempDir::new();
    let (policy, log) = (temp.join("policy.yaml"), temp.join("audit.log"));
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n").unwrap();
    let host = Host::start(&[&format!("--audit-policy-file={policy}"), &format!("--audit-log-path={log}")]);
    let controllers = json!({"controllers": ["serviceaccount"]});
    host.create("c", &controllers);
    wait_until_blocking("the write of a controller of a cluster", || {
        let text = std::fs::read_to_string(&log).unwrap();
        let mut events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let user = "system:serviceaccount:kube-system:service-account-controller";
        let of_c = |event: &Value| event["annotations"]["binnacle.dev/logical-cluster"] == "c";
        events.find(|event| event["user"]["username"] == user && of_c(event)).map(drop)
    });
    host.kubectl.ok(&["delete", "logicalclusters/c", "--timeout=30s"]);
    for name in ["a", "b"] {
        make_map(&host.create(name, &json!({"idleAfter": "1s"})), &format!("of-{name}"));
    }
    make_map(&host.kubectl, "of-host");
    host.wait_for_awake(0);
    // The end of a cluster does not end the audit log.
    make_map(&host.kubectl, "later");
    let events = wait_until_blocking("all events", || {
        let text = std::fs::read_to_string(&log).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut made: Vec<_> = events
            .iter()
            .filter(|event| event["verb"] == "create" && event["objectRef"]["resource"] == "configmaps")
            .filter(|event| event["stage"] == "ResponseComplete" && event["user"]["username"] == "kubernetes-admin")
            .map(|event| {
                let cluster = event["annotations"]["binnacle.dev/logical-cluster"].as_str().unwrap_or("-");
                format!("{} {cluster}", event["objectRef"]["name"].as_str().unwrap_or("?"))
            })
            .collect();
        made.sort();
        (made.len() == 4).then_some(made)
    });
    assert_eq!(events, ["later -", "of-a a", "of-b b", "of-host -"]);
}

/// Returns the keys of logical clusters in etcd.
fn keys(etcd: &Etcd) -> String {
    etcd.ctl(0, &["get", "/registry/logicalclusters/", "--prefix", "--keys-only"])
}

/// A deleted cluster leaves nothing, and a new one of the same name has nothing of it.
#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn deleted_cluster_leaves_nothing() {
    let etcd = Etcd::single();
    let host = Host::start(&[&etcd.servers()]);
    let [a, b] = ["a", "b"].map(|name| host.create(name, &json!({})));
    make_map(&a, "one");
    make_map(&b, "two");
    let before = keys(&etcd);
    assert_eq!(before.matches("/configmaps/default/").count(), 2, "{before}");
    host.kubectl.ok(&["delete", "logicalclusters/a", "--timeout=30s"]);
    let after = keys(&etcd);
    assert_eq!(after.matches("/configmaps/default/").count(), 1, "{after}");
    assert_eq!(after.matches("/namespaces/kube-system").count(), 1, "{after}");
    assert!(!a.run(&["get", "configmaps"]).success);
    let secrets = host.kubectl.ok(&["get", "secrets", "--namespace=logical-clusters", "--output=name"]);
    assert_eq!(secrets, "secret/b-keys\nsecret/b-kubeconfig\n");
    let former = a;
    let a = host.create("a", &json!({}));
    // Written by `create`: the file of the former administrator has been replaced.
    assert_eq!(maps(&a), "");
    assert_eq!(maps(&former), "");
    assert_eq!(maps(&b), "configmap/two\n");
}

/// Two servers of one etcd serve the same clusters, with the same credentials.
#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn two_hosts_serve_the_same_clusters() {
    let etcd = Etcd::single();
    let first = Host::start(&[&etcd.servers(), "--hostname-override=first"]);
    let a = first.create("a", &json!({}));
    make_map(&a, "one");
    let second = Host::start(&[&etcd.servers(), "--hostname-override=second"]);
    let url = format!("--server=https://{}/clusters/a", second.server.address);
    let other = |words: &[&str]| a.run(&[words, &[&url, "--insecure-skip-tls-verify"]].concat());
    let listed = wait_until_blocking("the second server serves it", || {
        let listed = other(&["get", "configmaps", "--namespace=default", "--output=name"]);
        listed.success.then_some(listed.out)
    });
    assert_eq!(listed, "configmap/one\n");
    let made = other(&["create", "configmap", "two", "--namespace=default"]);
    assert!(made.success, "{made}");
    assert_eq!(maps(&a), "configmap/one\nconfigmap/two\n");
}

/// The Secrets of a cluster are encrypted as those of the host, each under its own key in etcd.
#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn secrets_of_clusters_are_encrypted() {
    let (etcd, temp) = (Etcd::single(), binnacle_testkit::TempDir::new());
    let config = temp.join("encryption.yaml");
    std::fs::write(&config, SECRETS).unwrap();
    let host = Host::start(&[&etcd.servers(), &format!("--encryption-provider-config={config}")]);
    let a = host.create("a", &json!({"idleAfter": "1s"}));
    a.ok(&["create", "secret", "generic", "hidden", "--namespace=default", "--from-literal=word=treasure"]);
    let stored = etcd.ctl(0, &["get", "/registry/logicalclusters/", "--prefix", "--print-value-only"]);
    assert!(stored.contains("k8s:enc:aescbc:v1:k:") && !stored.contains("treasure"), "{stored}");
    let keys = etcd.ctl(0, &["get", "/registry/secrets/logical-clusters/", "--prefix", "--print-value-only"]);
    assert!(!keys.contains("PRIVATE KEY") && keys.contains("k8s:enc:aescbc"), "{keys}");
    host.wait_for_awake(0);
    let word = ["get", "secret", "hidden", "--namespace=default", "--output=go-template={{.data.word | base64decode}}"];
    assert_eq!(a.ok(&word), "treasure");
}

/// A cluster has its own controllers, from its next start on.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn controllers_are_chosen_for_each_cluster() {
    let host = Host::start(&[]);
    let (with, without) = (host.create("with", &json!({"controllers": ["*"]})), host.create("without", &json!({})));
    for kubectl in [&with, &without] {
        kubectl.ok(&["create", "namespace", "mine"]);
        kubectl.ok(&["delete", "namespace", "mine", "--wait=false"]);
    }
    with.ok(&["wait", "--for=delete", "namespace/mine", "--timeout=30s"]);
    assert_eq!(without.ok(&["get", "namespace", "mine", "--output=jsonpath={.status.phase}"]), "Terminating");
    let patch = |controllers: &Value| {
        let patch = json!({"spec": {"controllers": controllers}}).to_string();
        host.kubectl.ok(&["patch", "logicalcluster", "without", "--type=merge", "--patch", &patch]);
    };
    patch(&json!(["namespace"]));
    without.ok(&["wait", "--for=delete", "namespace/mine", "--timeout=30s"]);
    patch(&json!(["daemonset"]));
    host.wait_for("without", "Failed");
}
