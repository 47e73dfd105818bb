//! Lists of all forms have the same contents and are streamed: a client that requests many without reading them costs
//! no memory and does not delay others.

use std::time::{Duration, Instant};

use binnacle_schema::{Limits, json, yaml};
use binnacle_testkit::Server;
use binnacle_testkit::https::Client;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn make(client: &mut Client, name: &str, annotations: Value, data: Value) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}, "data": data
    });
    let answer = client.send("POST", MAPS, &[("content-type", "application/json")], map.to_string()).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
}

async fn get(client: &mut Client, path: &str, accept: &str) -> String {
    let answer = client.send("GET", path, &[("accept", accept)], "").await.unwrap();
    assert_eq!(answer.status, 200, "{path} {accept}: {}", answer.body);
    answer.body
}

fn from_yaml(text: &str) -> Value {
    let limits = Limits { max_bytes: 64 << 20, max_depth: 64, max_yaml_nodes: 1 << 20, max_memory: usize::MAX };
    let (value, _) = yaml::parse(text.as_bytes(), &limits).unwrap();
    serde_json::from_str(&json::to_string(&value)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_encodings_of_a_list_agree() {
    let server = Server::ephemeral();
    let mut client = server.connect(&server.admin()).await;
    let long = "word ".repeat(20_000);
    for (n, (annotations, data)) in [
        (json!({}), json!({})),
        (json!({"note": "a: b\n- c\n"}), json!({"text": "x\n\n", "null": "- null\n", "k10": "", "k9": "yes"})),
        (
            json!({"items": "\n- null\n"}),
            json!({"long": long, "rows": "\n- null\n", "umlaut": "\u{fc}\u{1f600}\u{85}"}),
        ),
        (json!({"end": "null"}), json!({"tab": "\tx", "html": "<&>", "quote": "\"'"})),
    ]
    .into_iter()
    .enumerate()
    {
        make(&mut client, &format!("m{n}"), annotations, data).await;
    }
    let first: Value =
        serde_json::from_str(&get(&mut client, &format!("{MAPS}?limit=1"), "application/json").await).unwrap();
    let at = first["metadata"]["resourceVersion"].as_str().unwrap();
    let empty = "/api/v1/namespaces/none/configmaps?x=y";
    let everything = format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact");
    for list in [&*everything, &format!("{everything}&limit=2"), empty] {
        for (json_type, yaml_type) in [
            ("application/json".to_owned(), "application/yaml".to_owned()),
            (TABLE.to_owned(), TABLE.replace("/json", "/yaml")),
            (METADATA.to_owned(), METADATA.replace("/json", "/yaml")),
        ] {
            let compact = get(&mut client, list, &json_type).await;
            // Ages change every second.
            let plain = |text: &str| {
                if json_type == TABLE { "Table".into() } else { serde_json::from_str::<Value>(text).unwrap() }
            };
            let pretty = get(&mut client, &format!("{list}&pretty=true"), &json_type).await;
            assert_eq!(plain(&pretty), plain(&compact), "{list} {json_type}");
            if json_type != TABLE {
                let mut indented = Vec::new();
                json::indent(compact.trim_end().as_bytes(), &mut indented);
                assert_eq!(pretty, String::from_utf8(indented).unwrap(), "{list} {json_type}");
                let text = get(&mut client, list, &yaml_type).await;
                assert_eq!(from_yaml(&text), plain(&compact), "{list} {yaml_type}");
                let limits =
                    Limits { max_bytes: 64 << 20, max_depth: 64, max_yaml_nodes: 1 << 20, max_memory: usize::MAX };
                let whole = json::parse(compact.as_bytes(), &limits).unwrap();
                assert_eq!(text, yaml::to_string(&whole), "{list} {yaml_type}");
            } else {
                let rows = |value: &Value| value["rows"].as_array().map(Vec::len);
                let columns = |value: &Value| value["columnDefinitions"].clone();
                let compact: Value = serde_json::from_str(&compact).unwrap();
                let pretty: Value = serde_json::from_str(&pretty).unwrap();
                let text = from_yaml(&get(&mut client, list, &yaml_type).await);
                assert_eq!((rows(&pretty), columns(&pretty)), (rows(&compact), columns(&compact)), "{list}");
                assert_eq!((rows(&text), columns(&text)), (rows(&compact), columns(&compact)), "{list}");
            }
        }
    }
}

/// Returns the server's memory in KiB.
pub(crate) fn memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_lists_take_little_memory() {
    const OBJECTS: usize = 40;
    let server = Server::ephemeral();
    let mut client = server.connect(&server.admin()).await;
    let data = "some text: that is not short\n".repeat(17_000);
    for n in 0..OBJECTS {
        make(&mut client, &format!("m{n}"), json!({}), json!({"text": data})).await;
    }
    let before = memory(&server);
    let mut open = Vec::new();
    let mut slowest = Duration::ZERO;
    for round in 0..6 {
        for (path, accept) in [
            (MAPS.to_owned(), "application/yaml"),
            (format!("{MAPS}?pretty=true"), "application/json"),
            (format!("{MAPS}?includeObject=Object"), TABLE),
            (format!("{MAPS}?pretty=true&n={round}"), METADATA),
        ] {
            let mut reader = server.connect(&server.admin()).await;
            let answer = reader.open("GET", &path, &[("accept", accept)], "").await.unwrap();
            assert_eq!(answer.status(), 200);
            open.push((reader, answer));
            let began = Instant::now();
            assert_eq!(client.get("/livez").await.unwrap().status, 200);
            slowest = slowest.max(began.elapsed());
        }
    }
    let grown = memory(&server).saturating_sub(before) >> 10;
    // 24 lists of 20 MB.
    assert!(grown < 150, "24 lists that nobody reads take {grown} MiB");
    assert!(slowest < Duration::from_secs(3), "another client waited {slowest:?}");
}
