//! Several servers on one etcd act as one; etcd may be killed, and its leader may change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_testkit::{Etcd, Server, wait_until};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"v": value}})).unwrap()
}

/// Starts servers concurrently, so that they race for the default objects of a cluster.
async fn servers(etcd: &Etcd, count: usize) -> Vec<Server> {
    let flag = etcd.servers();
    let starting: Vec<_> = (0..count)
        .map(|_| {
            let flag = flag.clone();
            tokio::task::spawn_blocking(move || Server::durable_with(&[&flag]))
        })
        .collect();
    futures::future::try_join_all(starting).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn two_servers_share_one_state() {
    let etcd = Etcd::single();
    let servers = servers(&etcd, 2).await;
    let clients = [servers[0].kube().await, servers[1].kube().await];
    crate::namespace(&clients[0], "shared").await;
    let maps = clients.clone().map(|client| Api::<ConfigMap>::namespaced(client, "shared"));

    // A write to one server can be read at the other, and a watch there has exactly one event for every write, in
    // order.
    let version = maps[1].list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = maps[1].watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let mut expected = Vec::new();
    for round in 0..40 {
        let (here, there) = (&maps[round % 2], &maps[(round + 1) % 2]);
        let name = format!("m{round}");
        let created = here.create(&PostParams::default(), &config_map(&name, "1")).await.unwrap();
        assert_eq!(there.get(&name).await.unwrap().resource_version(), created.resource_version());
        let listed = there.list(&ListParams::default()).await.unwrap();
        assert!(listed.items.iter().any(|map| map.name_any() == name), "{name} is in no list");
        let not_older = ListParams::default()
            .at(&created.resource_version().unwrap())
            .matching(kube::api::VersionMatch::NotOlderThan);
        assert!(there.list(&not_older).await.unwrap().items.iter().any(|map| map.name_any() == name));
        let patch = Patch::Merge(json!({"data": {"v": "2"}}));
        let patched = there.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(here.get(&name).await.unwrap().resource_version(), patched.resource_version());
        expected.extend([created.resource_version().unwrap(), patched.resource_version().unwrap()]);
        if round % 4 == 0 {
            here.delete(&name, &DeleteParams::default()).await.unwrap();
            assert!(there.get_opt(&name).await.unwrap().is_none(), "{name} was deleted");
            expected.push("gone".to_owned());
        }
    }
    for expected in expected {
        let event = tokio::time::timeout(Duration::from_secs(30), watch.try_next()).await.unwrap().unwrap().unwrap();
        let told = match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => map.resource_version().unwrap(),
            WatchEvent::Deleted(_) => "gone".to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told, expected);
    }
}

/// An external compaction of etcd does not affect lists of versions that a server has in memory (KEP-4988).
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn lists_survive_an_external_compaction() {
    let etcd = Etcd::single();
    let flag = etcd.servers();
    let remembers = Server::durable_with(&[&flag]);
    let forgets = Server::durable_with(&[&flag, "--feature-gates=ListFromCacheSnapshot=false"]);
    let client = remembers.kube().await;
    crate::namespace(&client, "kept").await;
    let maps = Api::<ConfigMap>::namespaced(client, "kept");
    let before = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
    }
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap().metadata;
    let (then, token) = (page.resource_version.unwrap(), page.continue_.unwrap());
    maps.patch("c", &PatchParams::default(), &Patch::Merge(json!({"data": {"v": "2"}}))).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    let now = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let compacted = etcd.ctl(0, &["compact", &now]);
    assert!(compacted.contains("compacted revision"), "{compacted}");

    let told = |maps: Vec<ConfigMap>| -> Vec<String> {
        maps.iter().map(|map| format!("{}={}", map.name_any(), map.data.as_ref().unwrap()["v"])).collect()
    };
    let exact = |version: &str| ListParams::default().at(version).matching(kube::api::VersionMatch::Exact);
    for (version, want) in [(&before, vec![]), (&then, vec!["a=1", "b=1", "c=1"]), (&now, vec!["a=1", "c=2"])] {
        let list = maps.list(&exact(version)).await.unwrap();
        assert_eq!(
            (told(list.items), list.metadata.resource_version.as_ref()),
            (want.iter().map(ToString::to_string).collect(), Some(version))
        );
    }
    let rest = maps.list(&ListParams::default().limit(5).continue_token(&token)).await.unwrap();
    assert_eq!(told(rest.items), ["b=1", "c=1"]);

    // A server without such snapshots, disabled by flag or started later, only has etcd's history.
    let late = Server::durable_with(&[&flag]);
    for server in [&forgets, &late] {
        let maps = Api::<ConfigMap>::namespaced(server.kube().await, "kept");
        assert_eq!(told(maps.list(&exact(&now)).await.unwrap().items), ["a=1", "c=2"]);
        for refused in [exact(&then), ListParams::default().limit(5).continue_token(&token)] {
            let kube::Error::Api(status) = maps.list(&refused).await.unwrap_err() else { panic!("no status") };
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{status:?}");
        }
    }
}

/// Addresses and ports are allocated once, by any of the servers.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn shares_allocations_between_servers() {
    let etcd = Etcd::single();
    let servers = servers(&etcd, 2).await;
    let clients = [servers[0].kube().await, servers[1].kube().await];
    crate::namespace(&clients[0], "shared").await;
    let creating = (0..30).map(|n| {
        let services: Api<Service> = Api::namespaced(clients[n % 2].clone(), "shared");
        async move {
            let service = json!({
                "metadata": {"name": format!("s{n}")},
                "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80}]},
            });
            services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap()
        }
    });
    let services = futures::future::join_all(creating).await;
    let specs = || services.iter().map(|service| service.spec.as_ref().unwrap());
    let addresses: BTreeSet<_> = specs().map(|spec| spec.cluster_ip.clone().unwrap()).collect();
    let ports: BTreeSet<_> = specs().map(|spec| spec.ports.as_ref().unwrap()[0].node_port.unwrap()).collect();
    assert_eq!((addresses.len(), ports.len()), (30, 30));
    // The default objects of a cluster exist once, although both servers created them.
    let service = Api::<Service>::namespaced(clients[1].clone(), "default");
    wait_until("the service kubernetes", async || service.get_opt("kubernetes").await.unwrap()).await;
}

/// Creates objects until `done` is set. Returns the acknowledged names.
async fn write(client: Client, writer: usize, done: Arc<AtomicBool>, acknowledged: Arc<Mutex<Vec<String>>>) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "kept");
    for n in 0.. {
        if done.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("w{writer}-{n}");
        if maps.create(&PostParams::default(), &config_map(&name, "1")).await.is_ok() {
            acknowledged.lock().push(name);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Writes through all servers before, during and after `fault`, and checks that nothing is lost.
async fn nothing_is_lost(servers: &[Server], fault: impl AsyncFnOnce()) {
    let mut clients = Vec::new();
    for server in servers {
        clients.push(server.kube().await);
    }
    crate::namespace(&clients[0], "kept").await;
    let (done, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let writers: Vec<_> = (0..6)
        .map(|n| tokio::spawn(write(clients[n % clients.len()].clone(), n, done.clone(), acknowledged.clone())))
        .collect();
    let count = || acknowledged.lock().len();
    wait_until("writes", async || (count() > 50).then_some(())).await;
    fault().await;
    let after = count();
    wait_until("writes go on", async || (count() > after + 100).then_some(())).await;
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        tokio::time::timeout(Duration::from_secs(60), writer).await.unwrap().unwrap();
    }
    for client in clients {
        let maps: Api<ConfigMap> = Api::namespaced(client, "kept");
        let listed = maps.list(&ListParams::default()).await.unwrap();
        let names: BTreeSet<_> = listed.items.iter().map(ResourceExt::name_any).collect();
        let lost: Vec<_> = acknowledged.lock().iter().filter(|name| !names.contains(*name)).cloned().collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn survives_kills_of_etcd_under_load() {
    let mut etcd = Etcd::single();
    let mut servers = servers(&etcd, 1).await;
    let mut probe = servers[0].client().await;
    nothing_is_lost(&servers, async || {
        tokio::task::block_in_place(|| etcd.kill(0));
        wait_until("it says that it is not ready", async || {
            let answer = probe.get("/readyz").await.unwrap();
            (answer.status == 500 && answer.body.contains("[-]etcd-readiness failed")).then_some(())
        })
        .await;
        tokio::task::block_in_place(|| etcd.restart(0));
        wait_until("it is ready again", async || (probe.get("/readyz").await.unwrap().status == 200).then_some(()))
            .await;
    })
    .await;
    assert!(servers[0].runs());
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn survives_leader_changes_under_load() {
    let mut etcd = Etcd::cluster(3);
    let servers = servers(&etcd, 2).await;
    nothing_is_lost(&servers, async || {
        let leader = tokio::task::block_in_place(|| {
            let leader = etcd.leader();
            etcd.kill(leader);
            leader
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        tokio::task::block_in_place(|| etcd.restart(leader));
        // Its connections stay open while it does not respond.
        let hanging = tokio::task::block_in_place(|| etcd.leader());
        etcd.freeze(hanging);
        tokio::time::sleep(Duration::from_secs(3)).await;
        etcd.thaw(hanging);
    })
    .await;
}

/// A server may be killed at any time during a compaction: another one continues, and no live object is lost.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn another_server_continues_an_interrupted_compaction() {
    let etcd = Etcd::single();
    let flag = etcd.servers();
    let mut servers: Vec<Server> = tokio::task::block_in_place(|| {
        (0..2).map(|_| Server::durable_with(&[&flag, "--etcd-compaction-interval=100ms"])).collect()
    });
    let compacted = |etcd: &Etcd| -> u64 {
        etcd.ctl(0, &["get", "compact_rev_key", "--print-value-only"]).trim().parse().unwrap_or(0)
    };
    for round in 0..6 {
        let client = servers[0].kube().await;
        if round == 0 {
            crate::namespace(&client, "kept").await;
        }
        let maps: Api<ConfigMap> = Api::namespaced(client, "kept");
        maps.create(&PostParams::default(), &config_map(&format!("m{round}"), "1")).await.unwrap();
        let before = compacted(&etcd);
        wait_until("compaction goes on", async || {
            let patch = Patch::Merge(json!({"data": {"v": compacted(&etcd).to_string()}}));
            maps.patch(&format!("m{round}"), &PatchParams::default(), &patch).await.unwrap();
            (compacted(&etcd) > before).then_some(())
        })
        .await;
        tokio::task::block_in_place(|| servers[round % 2].restart());
    }
    for server in &servers {
        let maps: Api<ConfigMap> = Api::namespaced(server.kube().await, "kept");
        assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 6);
    }
}

/// Flags set the keys and the encoding of objects; another server can read them anyway.
#[tokio::test(flavor = "multi_thread")]
async fn flags_set_keys_and_storage_encoding() {
    let (main, other) = (Etcd::single(), Etcd::single());
    let overrides = format!("--etcd-servers-overrides=/events#{}", other.endpoints()[0]);
    let shared = [main.servers(), overrides, "--etcd-prefix=/one/place".to_owned()];
    let shared: Vec<&str> = shared.iter().map(String::as_str).collect();
    for media_type in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
        let media_type_flag = format!("--storage-media-type={media_type}");
        let mut arguments = shared.clone();
        arguments.push(&media_type_flag);
        let server = tokio::task::block_in_place(|| Server::durable_with(&arguments));
        let client = server.kube().await;
        let name = media_type.rsplit('.').next().unwrap().replace('/', "-");
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        wait_until("the namespace", async || maps.create(&PostParams::default(), &config_map(&name, "1")).await.ok())
            .await;
        // Objects that earlier servers wrote, in any encoding, are in lists and match labels.
        for map in maps.list(&ListParams::default()).await.unwrap() {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"seen-by": &name}}}));
            maps.patch(&map.name_any(), &PatchParams::default(), &patch).await.unwrap();
        }
        let seen = maps.list(&ListParams::default().labels(&format!("seen-by={name}"))).await.unwrap();
        assert_eq!(seen.items.len(), maps.list(&ListParams::default()).await.unwrap().items.len());
        let key = format!("/one/place/configmaps/default/{name}");
        let stored = main.ctl(0, &["get", &key, "--print-value-only"]);
        let begins = match media_type {
            "application/json" => "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"",
            "application/yaml" => "apiVersion: v1\n",
            _ => "k8s\0",
        };
        assert!(stored.starts_with(begins), "{stored:?}");

        let events: Api<Event> = Api::default_namespaced(client.clone());
        let event = json!({
            "metadata": {"name": format!("e-{name}")},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "x"},
        });
        events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
        let keys = other.ctl(0, &["get", "--prefix", "", "--keys-only"]);
        assert!(keys.contains(&format!("/one/place/events/default/e-{name}")), "{keys}");
    }
    let keys = main.ctl(0, &["get", "--prefix", "", "--keys-only"]);
    let keys: Vec<_> = keys.lines().filter(|key| !key.is_empty() && *key != "compact_rev_key").collect();
    assert!(keys.iter().all(|key| key.starts_with("/one/place/")), "{keys:?}");
    assert!(!keys.iter().any(|key| key.contains("/events/")), "{keys:?}");
}

/// Reads without a watch cache go to the store, with the same results as from the cache.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn serves_reads_without_a_watch_cache() {
    let etcd = Etcd::single();
    let server = tokio::task::block_in_place(|| {
        Server::durable_with(&[&etcd.servers(), "--watch-cache=false", "--delete-collection-workers=5"])
    });
    let client = server.kube().await;
    crate::namespace(&client, "read").await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "read");
    for n in 0..25 {
        maps.create(&PostParams::default(), &config_map(&format!("m{n:02}"), "1")).await.unwrap();
    }
    let mut page = maps.list(&ListParams::default().limit(10)).await.unwrap();
    assert_eq!((page.items.len(), page.metadata.remaining_item_count), (10, Some(15)));
    let mut names: Vec<_> = page.items.iter().map(ResourceExt::name_any).collect();
    while let Some(token) = page.metadata.continue_.take().filter(|token| !token.is_empty()) {
        page = maps.list(&ListParams::default().limit(10).continue_token(&token)).await.unwrap();
        names.extend(page.items.iter().map(ResourceExt::name_any));
    }
    assert_eq!(names, (0..25).map(|n| format!("m{n:02}")).collect::<Vec<_>>());
    let version = page.metadata.resource_version.unwrap();
    let mut watch = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
    for _ in 0..25 {
        let event = tokio::time::timeout(Duration::from_secs(30), watch.try_next()).await.unwrap().unwrap();
        assert!(matches!(event, Some(WatchEvent::Deleted(_))), "{event:?}");
    }
}

/// etcd limits the size of a write. An object that is too large only because of its managedFields is written without
/// them, unless the request changes them.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn drops_managed_fields_of_too_large_objects() {
    let etcd = Etcd::single();
    let servers = servers(&etcd, 1).await;
    let client = servers[0].kube().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let entry =
        |i: u32| (format!("a-key-so-long-that-its-note-is-about-as-large-as-the-entry-itself-and-that-{i}"), "A");
    let data: std::collections::BTreeMap<_, _> = (0..9999).map(entry).collect();
    let large = |name: &str| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
    };
    let created = maps.create(&PostParams::default(), &large("created")).await.unwrap();
    assert_eq!((created.managed_fields().len(), created.data.unwrap().len()), (0, 9999));
    let mut small = maps.create(&PostParams::default(), &config_map("updated", "1")).await.unwrap();
    small.data = large("updated").data;
    let updated = maps.replace("updated", &PostParams::default(), &small).await.unwrap();
    assert_eq!((updated.managed_fields().len(), updated.data.unwrap().len()), (0, 9999));
    maps.create(&PostParams::default(), &config_map("patched", "1")).await.unwrap();
    let patch = Patch::Merge(json!({"data": data}));
    let patched = maps.patch("patched", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!((patched.managed_fields().len(), patched.data.unwrap().len()), (0, 10_000));
    let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "created"}}));
    let kube::Error::Api(status) = maps.patch("created", &PatchParams::apply("a"), &apply).await.unwrap_err() else {
        panic!("no status")
    };
    assert_eq!(status.code, 413, "{}", status.message);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn answers_lists_with_unreadable_objects() {
    let etcd = Etcd::single();
    let server = Server::durable_with(&[&etcd.servers()]);
    etcd.put("/registry/configmaps/default/broken", b"no object");
    let path = "/api/v1/namespaces/default/configmaps";
    for accept in [
        "application/json",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ] {
        let answer = server.client().await.send("GET", path, &[("accept", accept)], "").await.unwrap();
        assert_eq!(answer.status, 500, "{accept}: {}", answer.body);
    }
    // Other namespaces are not affected.
    let answer = server.client().await.get("/api/v1/namespaces/kube-system/configmaps").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}
