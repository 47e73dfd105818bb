//! An unread watch costs the server little, and ends with an error that its client understands.

use binnacle_testkit::Server;
use binnacle_testkit::https::Client;
use http_body_util::BodyExt;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
/// More events than a resource keeps in any case, plus those that are buffered for a watch.
const UPDATES: usize = 130;

async fn write(client: &mut Client, method: &str, path: &str, name: &str, number: usize) {
    let text = format!("{number} {}", "x".repeat(1_000_000));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
    let answer = client.send(method, path, &JSON, map.to_string()).await.unwrap();
    assert!(answer.status < 300, "{} {}", answer.status, answer.body.chars().take(300).collect::<String>());
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_watches_that_are_not_read() {
    let server = Server::ephemeral();
    let mut client = server.connect(&server.admin()).await;
    write(&mut client, "POST", MAPS, "large", 0).await;
    let mut watching = server.connect(&server.admin()).await;
    let path = format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Dlarge");
    let watch = watching.open("GET", &path, &[], "").await.unwrap();
    assert_eq!(watch.status(), 200);
    for number in 1..=UPDATES {
        write(&mut client, "PUT", &format!("{MAPS}/large"), "large", number).await;
    }
    // Buffered events arrive, and then an error that events are missing.
    let text = watch.into_body().collect().await.unwrap().to_bytes();
    let events: Vec<Value> = serde_json::Deserializer::from_slice(&text).into_iter().map(Result::unwrap).collect();
    let (last, told) = events.split_last().unwrap();
    assert_eq!(
        (&last["type"], &last["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "{}",
        last["object"]["message"]
    );
    assert_eq!(last["object"]["reason"], "Expired");
    assert!(told.len() < 40, "{} events of 1 MB were kept for a watch that nobody read", told.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_the_size_of_selectors() {
    let server = Server::ephemeral();
    let mut client = server.connect(&server.admin()).await;
    let terms = |count: usize| (0..count).map(|n| format!("l{n}!%3Dv")).collect::<Vec<_>>().join("%2C");
    for watch in ["", "&watch=true&timeoutSeconds=1"] {
        for parameter in ["labelSelector", "fieldSelector"] {
            let answer = client.get(&format!("{MAPS}?{parameter}={}{watch}", terms(1025))).await.unwrap();
            assert_eq!(answer.status, 400, "{}", answer.body);
            let status: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(status["reason"], "BadRequest");
            assert!(status["message"].as_str().unwrap().contains("may not have more than 1024 terms"), "{status}");
        }
        let answer = client.get(&format!("{MAPS}?labelSelector={}{watch}", terms(1024))).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}
