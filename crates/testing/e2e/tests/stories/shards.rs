//! Lists and watches of shards (KEP 5866): each object is in exactly one shard, and stays there.

use std::collections::BTreeSet;

use binnacle_testkit::Server;
use binnacle_testkit::https::Client;
use serde_json::{Value, json};

const GATE: &str = "--feature-gates=ShardedListAndWatch=true";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const KIND: [(&str, &str); 1] = [("content-type", "application/json")];
/// The bounds of four shards.
const BOUNDS: [&str; 5] =
    ["0x0000000000000000", "0x4000000000000000", "0x8000000000000000", "0xc000000000000000", "0x10000000000000000"];

fn shard(field: &str, n: usize) -> String {
    format!("shardRange(object.metadata.{field}, '{}', '{}')", BOUNDS[n], BOUNDS[n + 1])
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn get(client: &mut Client, path: &str) -> Value {
    let answer = client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn names(list: &Value) -> BTreeSet<String> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn selects_each_object_in_exactly_one_shard() {
    let server = tokio::task::block_in_place(|| Server::start(&["--ephemeral", GATE]));
    let mut client = server.client().await;
    for n in 0..40 {
        let map = json!({"metadata": {"name": format!("m{n}")}}).to_string();
        assert_eq!(client.send("POST", MAPS, &KIND, map).await.unwrap().status, 201);
    }
    let all = get(&mut client, MAPS).await;
    assert_eq!(all["metadata"].get("shardInfo"), None);
    let begin = all["metadata"]["resourceVersion"].as_str().unwrap();
    let mut seen = BTreeSet::new();
    let mut shards = Vec::new();
    for n in 0..4 {
        let selector = shard("uid", n);
        let list = get(&mut client, &format!("{MAPS}?shardSelector={}", encoded(&selector))).await;
        assert_eq!(list["metadata"]["shardInfo"], json!({"selector": selector}));
        // The same with pages.
        let page = get(&mut client, &format!("{MAPS}?limit=1&shardSelector={}", encoded(&selector))).await;
        assert_eq!((names(&page).len(), &page["metadata"]["shardInfo"]["selector"]), (1, &json!(selector)));
        assert_eq!(names(&list).intersection(&seen).count(), 0);
        seen.extend(names(&list));
        shards.push(names(&list));
    }
    assert_eq!(seen, names(&all));
    let [Some(first), Some(second)] = [0, 1].map(|n| shards[n].first()) else { panic!("{shards:?}") };

    // A change of an object is visible only to the watch of its shard, and so is its deletion.
    for name in [first, second] {
        let change = r#"{"data":{"a":"b"}}"#;
        let kind = [("content-type", "application/merge-patch+json")];
        assert_eq!(client.send("PATCH", &format!("{MAPS}/{name}"), &kind, change).await.unwrap().status, 200);
    }
    assert_eq!(client.send("DELETE", &format!("{MAPS}/{first}"), &[], "").await.unwrap().status, 200);
    let selector = encoded(&shard("uid", 0));
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={begin}&shardSelector={selector}");
    let events = client.get(&watch).await.unwrap();
    assert_eq!(events.status, 200);
    let events: Vec<(String, String)> = events
        .body
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| (event["type"].to_string(), event["object"]["metadata"]["name"].as_str().unwrap().to_owned()))
        .collect();
    let want = ["\"MODIFIED\"", "\"DELETED\""].map(|kind| (kind.to_owned(), first.clone()));
    assert_eq!(events, want);

    // All objects of a namespace have the same hash, and a table does not mention shards.
    let mut whole = 0;
    for n in 0..4 {
        let selector = encoded(&shard("namespace", n));
        let path = format!("{MAPS}?shardSelector={selector}");
        let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
        let table: Value = serde_json::from_str(&client.send("GET", &path, &accept, "").await.unwrap().body).unwrap();
        assert_eq!(table["metadata"].get("shardInfo"), None);
        whole += usize::from(table["rows"].as_array().unwrap().len() == 39);
    }
    assert_eq!(whole, 1);

    // A collection delete is limited to the shard.
    let path = format!("{MAPS}?shardSelector={selector}");
    assert_eq!(client.send("DELETE", &path, &[], "").await.unwrap().status, 200);
    assert_eq!(names(&get(&mut client, MAPS).await), &seen - &shards[0]);

    // If nothing is stored, the selector is not parsed.
    get(&mut client, "/api/v1/componentstatuses?shardSelector=x").await;
    let failed = client.get(&format!("{MAPS}?shardSelector=x")).await.unwrap();
    let failed: Value = serde_json::from_str(&failed.body).unwrap();
    let message = "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator";
    assert_eq!((&failed["code"], &failed["message"], failed.get("reason")), (&json!(500), &json!(message), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn ignores_shards_without_the_feature_gate() {
    let server = tokio::task::block_in_place(|| Server::start(&["--ephemeral"]));
    let mut client = server.client().await;
    let namespaces = "/api/v1/namespaces";
    let all = names(&get(&mut client, namespaces).await);
    for selector in [shard("uid", 0), "x".to_owned()] {
        let list = get(&mut client, &format!("{namespaces}?shardSelector={}", encoded(&selector))).await;
        assert_eq!((names(&list), list["metadata"].get("shardInfo")), (all.clone(), None));
    }
}
