//! An etcd that authenticates and authorizes its clients.

use std::path::PathBuf;
use std::time::Duration;

use binnacle_testkit::{Authority, Etcd, EtcdTls, Server, Tool, wait_until};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// Returns flags for a client certificate.
fn identity(authority: &Authority, files: &(PathBuf, PathBuf)) -> Vec<String> {
    vec![
        format!("--etcd-cafile={}", authority.ca().display()),
        format!("--etcd-certfile={}", files.0.display()),
        format!("--etcd-keyfile={}", files.1.display()),
    ]
}

fn ctl(etcd: &Etcd, commands: &[&str]) {
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let said = etcd.ctl(0, &words);
        assert!(!said.trim().is_empty(), "{command}");
    }
}

/// Returns true for versions before 3.4.31 and 3.5.13, whose watches cover everything.
pub(crate) fn watches_everything(etcd: &Etcd) -> bool {
    let status = etcd.ctl(0, &["endpoint", "status", "--write-out=simple"]);
    let version = status.split(", ").nth(2).expect("a version");
    let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
    numbers[..] < [3, 4, 31][..] || (numbers[1] == 5 && numbers[2] < 13)
}

/// Returns the response of a health check.
async fn check(server: &Server, path: &str) -> (u16, String) {
    let answer = server.client().await.get(path).await.unwrap();
    (answer.status, answer.body)
}

/// Users are identified by their certificates. The server only needs permissions below its prefix; it reports when they
/// are revoked, and recovers when they are granted again.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd_ranges), ignore = "needs etcd 3.4.31, 3.5.13 or later")]
async fn needs_permissions_below_its_prefix_only() {
    let authority = Authority::make();
    let (certificate, key) = authority.issue("root");
    let etcd = tokio::task::block_in_place(|| {
        Etcd::secure(&EtcdTls { ca: &authority.ca(), certificate: &certificate, key: &key })
    });
    ctl(
        &etcd,
        &[
            "user add root --no-password",
            "role add root",
            "user grant-role root root",
            "user add kube --no-password",
            "role add kube",
            "role grant-permission kube readwrite /registry/ /registry0",
            "user grant-role kube kube",
            "user add nobody --no-password",
            "auth enable",
        ],
    );
    let (kube, nobody) = (authority.issue("kube"), authority.issue("nobody"));
    let start = |user: &(PathBuf, PathBuf)| {
        let mut flags = identity(&authority, user);
        flags.extend([etcd.servers(), "--etcd-compaction-interval=1s".to_owned()]);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Server::durable_with(&flags)
    };
    let server = tokio::task::block_in_place(|| start(&kube));
    let client = server.kube().await;
    maps(&client).create(&PostParams::default(), &config_map("before")).await.unwrap();
    let version = maps(&client).list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = maps(&client).watch(&WatchParams::default(), &version).await.unwrap().boxed();

    ctl(&etcd, &["role revoke-permission kube /registry/ /registry0"]);
    wait_until("the health checks say what is wrong", async || {
        let answers = [check(&server, "/livez/etcd").await, check(&server, "/readyz/etcd-readiness").await];
        answers.iter().all(|(code, said)| *code == 500 && said.contains("permission denied")).then_some(())
    })
    .await;
    let refused = maps(&client).create(&PostParams::default(), &config_map("denied")).await.unwrap_err();
    assert!(refused.to_string().contains("etcdserver: permission denied"), "{refused}");

    ctl(&etcd, &["role grant-permission kube readwrite /registry/ /registry0"]);
    wait_until("it is ready again", async || (check(&server, "/readyz").await.0 == 200).then_some(())).await;
    maps(&client).create(&PostParams::default(), &config_map("after")).await.unwrap();
    let heard = async {
        while let Some(event) = watch.try_next().await.unwrap() {
            if matches!(&event, WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("after")) {
                return;
            }
            assert!(!matches!(&event, WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("denied")));
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(Duration::from_secs(30), heard).await.unwrap();

    // The tool can read everything that a server can. The records of a migration are outside of that prefix, and the
    // tool reports immediately that it may not write them.
    let mut flags = identity(&authority, &kube);
    let store = format!("etcd:{}", etcd.endpoints().join(","));
    let arguments = |flags: &[String], command: &[&str]| {
        command.iter().map(ToString::to_string).chain(flags.iter().cloned()).collect::<Vec<_>>()
    };
    let run = |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tokio::task::block_in_place(|| Tool::run(&arguments))
    };
    let sizes = run(arguments(&flags, &["sizes", &store]));
    assert!(sizes.code == Some(0) && sizes.out.contains("configmaps"), "{sizes:?}");
    flags.iter_mut().for_each(|flag| *flag = flag.replace("--etcd-", "--to-etcd-"));
    let data = tokio::task::block_in_place(Server::durable);
    let from = format!("embedded:{}", data.temp().join("data"));
    let migrated = run(arguments(&flags, &["migrate", "--online", "--from", &from, "--to", &store]));
    assert!(migrated.code == Some(1) && migrated.err.contains("permission denied"), "{migrated:?}");

    // A user without a role.
    let stranger = tokio::task::block_in_place(|| start(&nobody));
    let (code, said) = check(&stranger, "/livez/etcd").await;
    assert!(code == 500 && said.contains("permission denied"), "{code} {said}");
}
