//! SIGTERM with a thousand open watches stops the server immediately, and ends every watch cleanly.

use std::time::Duration;

use binnacle_testkit::Server;
use http_body_util::BodyExt;

const WATCHES: usize = 1_000;
const PER_CONNECTION: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn shuts_down_with_a_thousand_watches() {
    let mut server = Server::durable();
    let handshake = server.admin();
    let mut clients = Vec::new();
    let mut bodies = Vec::new();
    for n in 0..WATCHES {
        if n % PER_CONNECTION == 0 {
            clients.push(server.connect(&handshake).await);
        }
        let client = clients.last_mut().unwrap();
        let path = "/api/v1/namespaces?watch=true&allowWatchBookmarks=true";
        let mut body = client.open("GET", path, &[], "").await.unwrap().into_body();
        // Each watch has started: the existing namespaces come first.
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.starts_with(br#"{"type":"ADDED""#), "{first:?}");
        bodies.push(body);
    }
    let ends: Vec<_> = bodies.into_iter().map(|body| tokio::spawn(body.collect())).collect();
    let took = tokio::task::block_in_place(|| server.terminate());
    println!("{WATCHES} watches: ended after {took:?}");
    // The target is 50 ms; other tests run on the same cores.
    assert!(took < Duration::from_secs(3), "{took:?}");
    for end in ends {
        // The stream ends; the connection does not break.
        end.await.unwrap().unwrap();
    }
}
