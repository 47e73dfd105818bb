//! Migration from the embedded store to etcd and back: offline, under load, and with kills of the tool.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{
    Authority, Etcd, EtcdTls, Server, Signal, TIMEOUT, TempDir, Tool, wait_until, wait_until_blocking,
};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The last acknowledged write of each name. A write without a response may or may not have taken effect.
type ExpectedWrites = Arc<Mutex<BTreeMap<String, Vec<Option<String>>>>>;

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"v": value}})).unwrap()
}

pub(crate) fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "moved")
}

pub(crate) async fn populate(client: &Client, count: usize) {
    crate::namespace(client, "moved").await;
    let api = maps(client);
    for n in 0..count {
        api.create(&PostParams::default(), &config_map(&format!("m{n}"), "1")).await.unwrap();
    }
    for n in (0..count).step_by(3) {
        api.patch(&format!("m{n}"), &PatchParams::default(), &Patch::Merge(json!({"data": {"v": "2"}}))).await.unwrap();
    }
    for n in (0..count).step_by(7) {
        api.delete(&format!("m{n}"), &DeleteParams::default()).await.unwrap();
    }
    let event = json!({
        "metadata": {"name": "happened"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "moved", "name": "m1"},
    });
    let events: Api<Event> = Api::namespaced(client.clone(), "moved");
    events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
}

/// Names and objects without their versions, ordered by version, and the newest version.
#[derive(Debug)]
pub(crate) struct Contents {
    objects: Vec<(String, Value)>,
    pub(crate) newest: u64,
}

pub(crate) async fn contents(client: &Client) -> Contents {
    let list = maps(client).list(&ListParams::default()).await.unwrap();
    let newest = list.metadata.resource_version.unwrap().parse().unwrap();
    let version = |map: &ConfigMap| map.resource_version().unwrap().parse::<u64>().unwrap();
    let mut items = list.items;
    items.sort_by_key(version);
    let plain = |mut map: ConfigMap| {
        map.metadata.resource_version = None;
        (map.name_any(), serde_json::to_value(map).unwrap())
    };
    Contents { objects: items.into_iter().map(plain).collect(), newest }
}

impl Contents {
    pub(crate) fn assert_is(&self, before: &Self) {
        assert_eq!(self.objects, before.objects);
    }
}

fn data_of(server: &Server) -> String {
    format!("embedded:{}", server.temp().join("data"))
}

fn store_of(etcd: &Etcd) -> String {
    format!("etcd:{}", etcd.endpoints().join(","))
}

/// Checks that old versions are not reused with another meaning: a watch from one gets 410, a write based on one 409.
pub(crate) async fn old_versions_are_gone(client: &Client, version: u64) {
    let watch = maps(client).watch(&WatchParams::default(), &version.to_string()).await;
    let first = match watch {
        Ok(watch) => {
            let mut watch = Box::pin(watch);
            futures::StreamExt::next(&mut watch).await.map(|event| format!("{event:?}")).unwrap_or_default()
        }
        Err(error) => format!("{error:?}"),
    };
    assert!(first.contains("410"), "{first}");
    let mut map = config_map("m1", "overwritten");
    map.metadata.resource_version = Some(version.to_string());
    let refused = maps(client).replace("m1", &PostParams::default(), &map).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused:?}");
}

/// Returns the number and digest of each resource, as `check` prints them.
fn digests(checked: &str) -> Value {
    let report = Tool::succeed(&["check", checked, "-o", "json"]);
    let mut digests = serde_json::from_str::<Value>(&report).unwrap()["resources"].take();
    assert!(digests["configmaps"]["objects"].as_u64().unwrap() >= 50, "{digests}");
    // These end within seconds.
    digests.as_object_mut().unwrap().remove("(addresses of servers)");
    digests
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn migrates_to_etcd_and_back() {
    let etcd = Etcd::single();
    let mut server = Server::durable();
    let client = server.kube().await;
    populate(&client, 60).await;
    let before = contents(&client).await;
    let (from, to) = (data_of(&server), store_of(&etcd));
    let running = Tool::run(&["migrate", "--from", &from, "--to", &to]);
    assert!(running.code == Some(1) && running.err.contains("--online"), "{running:?}");
    server.terminate();
    let report = Tool::succeed(&["migrate", "--from", &from, "--to", &to]);
    assert!(report.contains("are the same in both stores, in the same order of changes"), "{report}");
    let again = Tool::run(&["migrate", "--from", &from, "--to", &to]);
    assert!(again.code == Some(1) && again.err.contains("the target is not empty"), "{again:?}");
    let saved = TempDir::new();
    let (file, restored) = (saved.join("backup"), saved.join("data"));
    Tool::succeed(&["backup", &to, &file]);
    Tool::succeed(&["restore", &file, &restored]);
    for same in [&to, &file, &restored] {
        assert_eq!(digests(same), digests(&from), "{same}");
    }

    let mut second = Server::durable_with(&[&etcd.servers()]);
    let client = second.kube().await;
    let after = contents(&client).await;
    after.assert_is(&before);
    assert!(after.newest > before.newest);
    old_versions_are_gone(&client, before.newest).await;
    let events: Api<Event> = Api::namespaced(client.clone(), "moved");
    events.get("happened").await.unwrap();
    // The event expires within its remaining time.
    let left = etcd.ctl(0, &["get", "/registry/events/moved/happened", "-w", "json"]);
    let lease = serde_json::from_str::<Value>(&left).unwrap()["kvs"][0]["lease"].as_i64().unwrap();
    let left = etcd.ctl(0, &["lease", "timetolive", &format!("{lease:x}")]);
    let seconds: u64 = left.split("remaining(").nth(1).unwrap().split('s').next().unwrap().parse().unwrap();
    assert!((3000..=3660).contains(&seconds), "{left}");
    maps(&client).create(&PostParams::default(), &config_map("new", "1")).await.unwrap();
    let before = contents(&client).await;
    second.terminate();

    let back = TempDir::new();
    let to_back = format!("embedded:{}", back.join("data"));
    Tool::succeed(&["migrate", "--from", &to, "--to", &to_back]);
    Tool::succeed(&["check", &back.join("data")]);
    let third = Server::start(&["--data-dir", &back.join("data")]);
    let client = third.kube().await;
    let after = contents(&client).await;
    after.assert_is(&before);
    assert!(after.newest > before.newest);
    old_versions_are_gone(&client, before.newest).await;
}

/// The tool is killed repeatedly while it copies, in both directions.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn resumes_after_kills() {
    let etcd = Etcd::single();
    let mut server = Server::durable();
    let client = server.kube().await;
    populate(&client, 400).await;
    let before = contents(&client).await;
    server.terminate();
    let (from, to) = (data_of(&server), store_of(&etcd));
    let count = || {
        let said = etcd.ctl(0, &["get", "/registry/configmaps/moved/", "--prefix", "--keys-only"]);
        said.lines().filter(|line| !line.is_empty()).count()
    };
    for goal in [1, 60, 150, 250] {
        let mut tool = Tool::start(&["migrate", "--from", &from, "--to", &to]);
        wait_until_blocking("part of it is copied", || (count() >= goal || !tool.runs()).then_some(()));
        tool.signal(Signal::KILL);
        let _ = tool.wait();
    }
    let finished = Tool::run(&["migrate", "--from", &from, "--to", &to]);
    // On a fast machine one of the attempts may have finished before the kill.
    let done = finished.code == Some(0) || finished.err.contains("the target is not empty");
    assert!(done, "{finished:?}");
    let mut second = Server::durable_with(&[&etcd.servers()]);
    contents(&second.kube().await).await.assert_is(&before);
    second.terminate();

    let temp = TempDir::new();
    let (data, back) = (temp.join("data"), format!("embedded:{}", temp.join("data")));
    let mut refused = 0;
    for patience in [20, 60, 120, 200] {
        let tool = Tool::start(&["migrate", "--from", &to, "--to", &back]);
        std::thread::sleep(Duration::from_millis(patience));
        tool.signal(Signal::KILL);
        let outcome = tool.wait();
        if outcome.code.is_none() && Path::new(&data).join("store/log").exists() {
            // Incomplete data is not served.
            let said = refusal(&[format!("--data-dir={data}")]);
            assert!(said.contains("the store has an unfinished migration"), "{said}");
            refused += 1;
        }
    }
    println!("the server refused {refused} times");
    let finished = Tool::run(&["migrate", "--from", &to, "--to", &back]);
    assert!(finished.code == Some(0) || finished.err.contains("the target is not empty"), "{finished:?}");
    Tool::succeed(&["check", &data]);
    let third = Server::start(&["--data-dir", &data]);
    contents(&third.kube().await).await.assert_is(&before);
}

/// etcd is killed while it is filled, and while it is read. The tool waits for it; meanwhile no server starts on it.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn waits_for_etcd_that_is_killed() {
    let mut etcd = Etcd::single();
    let mut server = Server::durable();
    let client = server.kube().await;
    populate(&client, 600).await;
    let before = contents(&client).await;
    server.terminate();
    let (from, to) = (data_of(&server), store_of(&etcd));
    let back = TempDir::new();
    let to_back = format!("embedded:{}", back.join("data"));
    // At different times.
    for (from, to) in [(&from, &to), (&to, &to_back)] {
        let mut tool = Tool::start(&["migrate", "--from", from, "--to", to]);
        for pause in [0, 30, 10, 80] {
            std::thread::sleep(Duration::from_millis(pause));
            etcd.kill(0);
            std::thread::sleep(Duration::from_millis(100));
            etcd.restart(0);
        }
        let finished = !tool.runs();
        let outcome = tool.wait();
        println!("etcd died four times, the tool was through before: {finished}");
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.out.contains("are the same in both stores, in the same order of changes"), "{outcome:?}");
    }
    let last = Server::start(&["--data-dir", &back.join("data")]);
    contents(&last.kube().await).await.assert_is(&before);
}

/// Three members with certificates, whose leader is killed. Incomplete data is not served from there either.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn migrates_to_a_secure_cluster() {
    let authority = Authority::make();
    let (certificate, key) = authority.issue("etcd");
    let ca = authority.ca();
    let mut etcd = Etcd::secure_cluster(3, &EtcdTls { ca: &ca, certificate: &certificate, key: &key });
    let mut server = Server::durable();
    let client = server.kube().await;
    populate(&client, 300).await;
    let before = contents(&client).await;
    server.terminate();
    let (certificate, key) = authority.issue("client");
    let tls = |prefix: &str| {
        let files = [("cafile", &ca), ("certfile", &certificate), ("keyfile", &key)];
        files.map(|(name, path)| format!("--{prefix}{name}={}", path.display())).to_vec()
    };
    let (from, to) = (data_of(&server), store_of(&etcd));
    let plain = Tool::run(&["doctor", &to, &tls("etcd-")[0]]);
    assert_eq!(plain.code, Some(1), "whoever shows no certificate learns nothing: {plain:?}");

    let mut arguments = vec!["migrate".to_owned(), format!("--from={from}"), format!("--to={to}")];
    arguments.extend(tls("to-etcd-"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let unfinished = "binnacle_migration/registry/";
    etcd.put(unfinished, br#"{"source":"another","reached":0}"#);
    let mut served = vec![etcd.servers()];
    served.extend(tls("etcd-"));
    let temp = TempDir::new();
    let said = refusal(&[served.clone(), vec![format!("--data-dir={}", temp.join("data"))]].concat());
    assert!(said.contains("the store has an unfinished migration"), "{said}");
    let _ = etcd.ctl(0, &["del", unfinished]);

    let tool = Tool::start(&arguments);
    let leader = etcd.leader();
    etcd.kill(leader);
    let outcome = tool.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    etcd.restart(leader);
    let served: Vec<&str> = served.iter().map(String::as_str).collect();
    let second = Server::durable_with(&served);
    contents(&second.kube().await).await.assert_is(&before);
    let mut doctor = vec!["doctor".to_owned(), to];
    doctor.extend(tls("etcd-"));
    Tool::succeed(&doctor.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Returns the log of a server that refuses to start.
fn refusal(arguments: &[String]) -> String {
    let temp = TempDir::new();
    let log = temp.path().join("log");
    let mut program = binnacle_testkit::program();
    program.arg("--secure-port=0").args(arguments).stderr(File::create(&log).unwrap());
    let mut child = program.stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > TIMEOUT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the server started on it");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::read_to_string(log).unwrap()
}

/// Writes until `done` is set or the server is down.
async fn write(client: Client, writer: usize, known: ExpectedWrites, done: Arc<AtomicBool>) {
    let api = maps(&client);
    for n in 0.. {
        if done.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("w{writer}-{}", n % 20);
        let value = n.to_string();
        let before = known.lock().get(&name).cloned().unwrap_or_else(|| vec![None]);
        let (wanted, result) = match (&before[0], n % 5) {
            (None, _) => {
                known.lock().insert(name.clone(), vec![before[0].clone(), Some(value.clone())]);
                (Some(value.clone()), api.create(&PostParams::default(), &config_map(&name, &value)).await.map(drop))
            }
            (Some(_), 4) => {
                known.lock().insert(name.clone(), vec![before[0].clone(), None]);
                (None, api.delete(&name, &DeleteParams::default()).await.map(drop))
            }
            (Some(_), _) => {
                known.lock().insert(name.clone(), vec![before[0].clone(), Some(value.clone())]);
                let patch = Patch::Merge(json!({"data": {"v": value}}));
                (Some(value.clone()), api.patch(&name, &PatchParams::default(), &patch).await.map(drop))
            }
        };
        if result.is_err() {
            return;
        }
        known.lock().insert(name, vec![wanted]);
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

fn start_writers(client: &Client) -> (ExpectedWrites, Arc<AtomicBool>, Vec<tokio::task::JoinHandle<()>>) {
    let (known, done) = (ExpectedWrites::default(), Arc::new(AtomicBool::new(false)));
    let writers = (0..4).map(|writer| tokio::spawn(write(client.clone(), writer, known.clone(), done.clone())));
    let writers = writers.collect();
    (known, done, writers)
}

async fn all_acknowledged(client: &Client, known: &ExpectedWrites) {
    let list = maps(client).list(&ListParams::default()).await.unwrap();
    let value = |map: &ConfigMap| map.data.as_ref().and_then(|data| data.get("v")).cloned().unwrap_or_default();
    let found: BTreeMap<_, _> = list.items.iter().map(|map| (map.name_any(), value(map))).collect();
    for (name, possible) in &*known.lock() {
        let is = found.get(name).cloned();
        assert!(possible.contains(&is), "{name}: {is:?} is none of {possible:?}");
    }
}

/// A running server's data is copied and followed while clients write. The switch happens when the server stops.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn migrates_online_until_the_server_stops() {
    online_until(|server| {
        server.terminate();
    })
    .await;
}

/// The same with a killed server.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn migrates_online_until_the_server_is_killed() {
    online_until(Server::kill).await;
}

async fn online_until(end: impl Fn(&mut Server)) {
    let etcd = Etcd::single();
    let mut server = Server::durable();
    let client = server.kube().await;
    populate(&client, 100).await;
    let (known, done, writers) = start_writers(&client);
    let (from, to) = (data_of(&server), store_of(&etcd));
    let mut tool = Tool::start(&["migrate", "--online", "--from", &from, "--to", &to]);
    tokio::task::block_in_place(|| tool.wait_for("Watching the source"));
    let mark = known.lock().len();
    wait_until("more is written", async || (known.lock().len() >= mark.min(60)).then_some(())).await;
    // The tool is killed in between, and continues.
    tool.signal(Signal::KILL);
    let _ = tokio::task::block_in_place(|| tool.wait());
    let mut tool = Tool::start(&["migrate", "--online", "--from", &from, "--to", &to]);
    tokio::task::block_in_place(|| tool.wait_for("Watching the source"));
    tokio::task::block_in_place(|| end(&mut server));
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    let outcome = tokio::task::block_in_place(|| tool.wait());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let second = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers()]));
    all_acknowledged(&second.kube().await, &known).await;
}

/// In the other direction, the operator signals that the servers have stopped.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn migrates_online_from_etcd() {
    let etcd = Etcd::single();
    let mut server = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers()]));
    let client = server.kube().await;
    populate(&client, 100).await;
    let (known, done, writers) = start_writers(&client);
    let temp = TempDir::new();
    let (from, to) = (store_of(&etcd), format!("embedded:{}", temp.join("data")));
    let mut tool = Tool::start(&["migrate", "--online", "--from", &from, "--to", &to]);
    tokio::task::block_in_place(|| tool.wait_for("Watching the source"));
    wait_until("more is written", async || (known.lock().len() >= 40).then_some(())).await;
    tokio::task::block_in_place(|| server.terminate());
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    tool.signal(Signal::USR1);
    let outcome = tokio::task::block_in_place(|| tool.wait());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let data = temp.join("data");
    let second = tokio::task::block_in_place(|| Server::start(&["--data-dir", &data]));
    all_acknowledged(&second.kube().await, &known).await;
}
