//! Imports into the embedded store: from an etcd snapshot, and from kine's table (k3s) in SQLite or another database.

use std::fs::File;
use std::process::{Command, Stdio};

use binnacle_testkit::{Etcd, Server, TempDir, Tool};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::migration::{Contents, config_map, contents, maps, old_versions_are_gone, populate};

/// Writes the keys that etcdctl printed into kine's table: in SQLite with a write-ahead log that was not checkpointed,
/// and as CSV as exported by psql's `\copy ... csv header`. kine numbers leases by their seconds.
const KINE: &str = r#"
import base64, json, os, sqlite3, sys
folder, dump = sys.argv[1], json.load(sys.stdin)
db = sqlite3.connect(folder + "/state.db")
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE IF NOT EXISTS kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, created INTEGER, deleted INTEGER, "
           "create_revision INTEGER, prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB)")
db.execute("CREATE UNIQUE INDEX IF NOT EXISTS kine_name_prev_revision_uindex ON kine (name, prev_revision)")
rows = [(1, "compact_rev_key", 1, 0, 0, 0, 0, b"")]
for kv in sorted(dump["kvs"], key=lambda kv: kv["mod_revision"]):
    text = lambda name: base64.b64decode(kv.get(name, ""))
    created = kv["create_revision"] == kv["mod_revision"]
    rows.append((kv["mod_revision"], text("key").decode(), int(created), 0, 0 if created else kv["create_revision"],
                 0 if created else kv["mod_revision"] - 1, 3600 if kv.get("lease") else 0, text("value")))
newest = dump["header"]["revision"] + 1
rows.append((newest, "gap-%d" % newest, 0, 1, 0, 0, 0, b""))
db.executemany("INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value) VALUES (?,?,?,?,?,?,?,?)", rows)
db.commit()
with open(folder + "/kine.csv", "w") as csv:
    csv.write("id,name,created,deleted,create_revision,prev_revision,lease,value\n")
    for row in rows:
        csv.write(",".join(map(str, row[:-1])) + ",\\x" + row[-1].hex() + "\n")
os._exit(0)
"#;

/// Starts a server on etcd with some objects, and returns them.
async fn filled(etcd: &Etcd) -> (Server, Contents) {
    let server = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers()]));
    let client = server.kube().await;
    populate(&client, 60).await;
    let before = contents(&client).await;
    (server, before)
}

/// Restores a file, starts a server on the result, and compares.
async fn comes_back(file: &str, before: &Contents) {
    let temp = TempDir::new();
    let data = temp.join("data");
    let said = Tool::succeed(&["restore", file, &data]);
    assert!(
        said.contains("clients that continue from an older resourceVersion get 410 (Gone) and list again"),
        "{said}"
    );
    Tool::succeed(&["check", &data]);
    Tool::succeed(&["doctor", &format!("embedded:{data}")]);
    let server = tokio::task::block_in_place(|| Server::start(&["--data-dir", &data]));
    let client = server.kube().await;
    let after = contents(&client).await;
    after.assert_is(before);
    assert!(after.newest > before.newest);
    old_versions_are_gone(&client, before.newest).await;
    let events: Api<Event> = Api::namespaced(client.clone(), "moved");
    events.get("happened").await.unwrap();
    maps(&client).create(&PostParams::default(), &config_map("new", "1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn serves_a_snapshot_of_etcd() {
    let etcd = Etcd::single();
    let (mut server, before) = filled(&etcd).await;
    let temp = TempDir::new();
    let file = temp.join("snapshot");
    let _ = etcd.ctl(0, &["snapshot", "save", &file]);
    // Later writes are not in it.
    maps(&server.kube().await).create(&PostParams::default(), &config_map("later", "1")).await.unwrap();
    server.terminate();
    comes_back(&file, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_python)), ignore = "needs etcd and python3")]
async fn serves_the_table_of_kine() {
    let etcd = Etcd::single();
    let (mut server, before) = filled(&etcd).await;
    server.terminate();
    let temp = TempDir::new();
    let dump = temp.join("dump.json");
    std::fs::write(&dump, etcd.ctl(0, &["get", "/registry/", "--prefix", "-w", "json"])).unwrap();
    let folder = temp.path().display().to_string();
    let mut python = Command::new("python3");
    let status = python.args(["-c", KINE, &folder]).stdin(Stdio::from(File::open(&dump).unwrap())).status().unwrap();
    assert!(status.success(), "{status}");
    assert!(std::fs::metadata(temp.join("state.db-wal")).unwrap().len() > 10_000, "what matters is in the log");
    comes_back(&temp.join("state.db"), &before).await;
    comes_back(&temp.join("kine.csv"), &before).await;
}

/// An object that was written before some of its fields existed is read with their defaults, and old clients can write
/// it back.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn completes_objects_of_old_releases() {
    let etcd = Etcd::single();
    let server = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers()]));
    let service = json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {"name": "old", "namespace": "default", "uid": "08675309-9376-9376-9376-086753099999"},
        "spec": {"ports": [{"port": 81}], "clusterIP": "10.0.0.11"}
    });
    etcd.put("/registry/services/specs/default/old", service.to_string().as_bytes());
    let path = "/api/v1/namespaces/default/services/old";
    let complete = |spec: &Value| {
        assert_eq!(
            *spec,
            json!({
                "ports": [{"port": 81, "protocol": "TCP", "targetPort": 81}], "type": "ClusterIP",
                "clusterIP": "10.0.0.11", "clusterIPs": ["10.0.0.11"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None"
            })
        );
    };
    let mut client = server.client().await;
    let answer = client.get(path).await.unwrap();
    complete(&serde_json::from_str::<Value>(&answer.body).unwrap()["spec"]);
    let headers = [("content-type", "application/json")];
    let answer = client.send("PUT", path, &headers, service.to_string()).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    complete(&serde_json::from_str::<Value>(&answer.body).unwrap()["spec"]);
}
