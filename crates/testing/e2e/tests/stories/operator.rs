//! The operator's tools: damage, sizes, and a check whether a server can take over a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_testkit::{Etcd, Server, TempDir, Tool, wait_until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"v": "x".repeat(500)}})).unwrap()
}

async fn fill(server: &Server, count: usize) -> Api<ConfigMap> {
    let client = server.kube().await;
    crate::namespace(&client, "looked-at").await;
    let api: Api<ConfigMap> = Api::namespaced(client, "looked-at");
    for n in 0..count {
        api.create(&PostParams::default(), &config_map(&format!("m{n}"))).await.unwrap();
    }
    api
}

fn last_segment(data: &str) -> PathBuf {
    let entries = std::fs::read_dir(Path::new(data).join("store")).unwrap();
    let mut segments: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-"));
    segments.sort();
    segments.pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn inspects_and_checks_a_data_directory() {
    let mut server = Server::durable();
    fill(&server, 40).await;
    let data = server.temp().join("data");
    let store = format!("embedded:{data}");
    let sizes = |arguments: &[&str]| -> Value {
        let all = [&["sizes", &store, "-o", "json"], arguments].concat();
        serde_json::from_str(&Tool::succeed(&all)).unwrap()
    };
    let of = |sizes: &Value, name: &str| {
        let resources = sizes["resources"].as_array().unwrap().clone();
        resources.into_iter().find(|resource| resource["resource"] == name).unwrap()
    };
    // With a running server its API is used; a stopped server is not needed.
    let running = sizes(&["--largest", "3"]);
    assert_eq!(running["largest"].as_array().unwrap().len(), 3);
    let doctor = Tool::run(&["doctor", &store]);
    assert!(doctor.code == Some(0) && doctor.out.contains("can serve the store"), "{doctor:?}");
    let check = Tool::run(&["check", &data]);
    assert!(check.code == Some(1) && check.err.contains("in use by the process"), "{check:?}");
    server.terminate();
    let stopped = sizes(&[]);
    for sizes in [&running, &stopped] {
        let maps = of(sizes, "configmaps");
        assert!(maps["objects"].as_u64().unwrap() >= 40 && maps["bytes"].as_u64().unwrap() > 20_000, "{maps}");
    }
    assert_eq!(of(&running, "configmaps")["objects"], of(&stopped, "configmaps")["objects"]);
    let whole = Tool::succeed(&["check", &data]);
    assert!(whole.ends_with("The data is whole.\n"), "{whole}");

    let path = last_segment(&data);
    let mut bytes = std::fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 0x20;
    std::fs::write(&path, &bytes).unwrap();
    let damaged = Tool::run(&["check", &data]);
    assert!(damaged.code == Some(1) && damaged.out.contains("damaged: "), "{damaged:?}");
    assert!(std::fs::read(&path).unwrap() == bytes, "nothing is repaired");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn inspects_etcd() {
    let etcd = Etcd::single();
    let mut server = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers()]));
    fill(&server, 3).await;
    server.terminate();
    let store = format!("etcd:{}", etcd.endpoints().join(","));
    let healthy = Tool::succeed(&["doctor", &store]);
    assert!(healthy.contains("can serve the store"), "{healthy}");
    for (key, value) in [
        ("/registry/gadgets/a", "{}"),
        ("/registry/configmaps/looked-at/odd", r#"{"apiVersion":"v7","kind":"ConfigMap"}"#),
        ("/registry/secrets/looked-at/sealed", "k8s:enc:aesgcm:v1:key1:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        ("/registry/example.com/things/a", "{}"),
        ("/elsewhere/a", "{}"),
    ] {
        let _ = etcd.ctl(0, &["put", key, value]);
    }
    let doctor = Tool::run(&["doctor", &store, "-o", "json"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    let diagnosis: Value = serde_json::from_str(&doctor.out).unwrap();
    let mut kinds: Vec<_> =
        diagnosis["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["Encrypted", "ForeignKeys", "Undecodable", "Undecodable", "UnknownKeys"]);
    assert_eq!(diagnosis["canTakeOver"], false);
}

/// A backup is made during writes, and restored as of its end and of an earlier revision.
#[tokio::test(flavor = "multi_thread")]
async fn backs_up_and_restores_a_running_store() {
    let server = Server::durable();
    let api = fill(&server, 30).await;
    let then = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let writer = {
        let (api, done, acknowledged) = (api.clone(), done.clone(), acknowledged.clone());
        tokio::spawn(async move {
            for n in 0.. {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                api.create(&PostParams::default(), &config_map(&format!("w{n}"))).await.unwrap();
                acknowledged.store(n + 1, Ordering::SeqCst);
            }
        })
    };
    wait_until("writes", async || (acknowledged.load(Ordering::SeqCst) > 20).then_some(())).await;
    let temp = TempDir::new();
    let file = temp.join("backup");
    let before = acknowledged.load(Ordering::SeqCst);
    let store = format!("embedded:{}", server.temp().join("data"));
    tokio::task::block_in_place(|| Tool::succeed(&["backup", &store, &file]));
    tokio::task::block_in_place(|| Tool::succeed(&["check", &file]));
    wait_until("more writes", async || (acknowledged.load(Ordering::SeqCst) > before + 20).then_some(())).await;
    done.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    let newest: u64 =
        api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap().parse().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    drop(server);

    for (arguments, least) in [(vec![], 30 + before), (vec!["--revision", &*then], 30)] {
        let data = temp.join(&format!("data{least}"));
        tokio::task::block_in_place(|| Tool::succeed(&[&["restore", &file, &data], &*arguments].concat()));
        tokio::task::block_in_place(|| Tool::succeed(&["check", &data]));
        let restored = tokio::task::block_in_place(|| Server::start(&["--data-dir", &data]));
        let api: Api<ConfigMap> = Api::namespaced(restored.kube().await, "looked-at");
        let list = api.list(&ListParams::default()).await.unwrap();
        let version: u64 = list.metadata.resource_version.clone().unwrap().parse().unwrap();
        // No version that a client has seen is reused.
        assert!(version > newest + 900_000_000, "{version} after {newest}");
        let ours = list.items.iter().filter(|map| map.name_any() != "kube-root-ca.crt").count();
        if arguments.is_empty() {
            assert!(ours >= least, "{ours} of {least}");
        } else {
            assert_eq!(ours, least);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn salvages_a_damaged_store() {
    let mut server = Server::durable();
    fill(&server, 20).await;
    tokio::task::block_in_place(|| server.terminate());
    let data = server.temp().join("data");
    let path = last_segment(&data);
    let mut bytes = std::fs::read(&path).unwrap();
    let key = b"/registry/configmaps/looked-at/m7";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap();
    bytes[at + key.len() + 300] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let refused = Tool::run(&["backup", &format!("embedded:{data}"), &server.temp().join("backup")]);
    assert!(refused.code == Some(1) && refused.err.contains("'binnacle salvage'"), "{refused:?}");

    // The CAs and keys of the data directory stay.
    let damaged = server.temp().join("damaged");
    std::fs::rename(Path::new(&data).join("store"), &damaged).unwrap();
    let told = Tool::succeed(&["salvage", &damaged, &data]);
    assert!(told.contains("/registry/configmaps/looked-at/m7\" ("), "{told}");
    assert!(told.contains("no version of the object is left"), "{told}");
    let check = Tool::succeed(&["check", &data]);
    assert!(check.contains("Salvaged on ") && check.ends_with("The data is whole.\n"), "{check}");

    tokio::task::block_in_place(|| server.restart());
    let api: Api<ConfigMap> = Api::namespaced(server.kube().await, "looked-at");
    let mut names: Vec<_> =
        api.list(&ListParams::default()).await.unwrap().items.iter().map(|map| map.name_any()).collect();
    names.retain(|name| name.starts_with('m'));
    names.sort();
    let mut expected: Vec<_> = (0..20).filter(|n| *n != 7).map(|n| format!("m{n}")).collect();
    expected.sort();
    assert_eq!(names, expected);
    api.create(&PostParams::default(), &config_map("m7")).await.unwrap();
    assert!(server.log().contains("Salvaged on "), "{}", server.log());
}
