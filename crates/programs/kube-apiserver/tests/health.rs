//! The checks that `/healthz`, `/livez` and `/readyz` list, single checks, and excluded checks.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use binnacle_testkit::{Server, wait_until};

/// Returns the checks that an endpoint lists, in order, without those that only this server has.
async fn names(server: &Server, endpoint: &str) -> Vec<String> {
    let answer = wait_until("it is ready", async || {
        let answer = server.client().await.get(&format!("/{endpoint}?verbose")).await.unwrap();
        (answer.status == 200).then_some(answer)
    })
    .await;
    let lines = answer.body.lines().filter_map(|line| line.strip_prefix("[+]")?.strip_suffix(" ok"));
    lines.filter(|name| !["background-tasks", "cache-consistency"].contains(name)).map(str::to_owned).collect()
}

const STARTED: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

#[tokio::test]
async fn check_names_equal_kube_apiserver() {
    let server = Server::ephemeral();
    for (endpoint, first, last) in [
        ("healthz", &["ping", "log", "loopback-serving-certificate", "etcd"][..], &[][..]),
        ("livez", &["ping", "log", "loopback-serving-certificate", "etcd"], &[]),
        ("readyz", &["ping", "log", "etcd", "etcd-readiness", "informer-sync"], &["shutdown"]),
    ] {
        let names = names(&server, endpoint).await;
        assert_eq!(names, [first, STARTED, last].concat(), "{endpoint}");
        for name in names {
            let mut client = server.client().await;
            let one = client.get(&format!("/{endpoint}/{name}")).await.unwrap();
            assert_eq!((one.status, one.body.as_str()), (200, "ok"), "{name}");
            let others = client.get(&format!("/{endpoint}?verbose&exclude={name}")).await.unwrap();
            assert!(others.body.contains(&format!("[+]{name} excluded: ok\n")), "{}", others.body);
            assert!(!others.body.contains("warn:"), "{}", others.body);
        }
    }
}

#[tokio::test]
async fn disabled_features_have_no_checks() {
    let server = Server::start(&[
        "--ephemeral",
        "--enable-priority-and-fairness=false",
        "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false,\
         WatchCacheInitializationPostStartHook=false",
    ]);
    let names = names(&server, "livez").await;
    let started = names.iter().filter_map(|name| name.strip_prefix("poststarthook/")).collect::<Vec<_>>();
    for (name, want) in [
        ("priority-and-fairness-config-consumer", false),
        ("priority-and-fairness-filter", false),
        ("max-in-flight-filter", true),
        ("priority-and-fairness-config-producer", true),
        ("start-kube-apiserver-identity-lease-controller", false),
        ("peer-endpoint-reconciler-controller", false),
        ("storage-readiness", false),
    ] {
        assert_eq!(started.contains(&name), want, "{name}");
    }
}
