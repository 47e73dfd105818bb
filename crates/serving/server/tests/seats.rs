//! Tests of requests that wait without a seat of priority and fairness, which has a single seat here.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_flowcontrol::{FlowControl, RequestLimits};
use binnacle_metrics::Registry;
use binnacle_testkit::TIMEOUT;
use binnacle_testkit::https::{Answer, Client};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use rig::{Options, TestServer};

/// The number of requests of one user that may wait without a seat.
const MAX_PER_USER: usize = 64;

async fn start() -> TestServer {
    let limits = RequestLimits { read_only: 1, mutating: 0 };
    let control = FlowControl::new(limits, Arc::new(|_| None), Arc::new(|_| None), &Registry::new()).unwrap();
    TestServer::with(Options { fairness: Some(control), ..Options::default() }).await
}

/// Repeats a request until it gets a seat.
async fn send_until_seated(client: &mut Client, path: &str) -> Answer {
    send_with_headers_until_seated(client, path, &[]).await
}

/// As [`send_until_seated`], with headers.
async fn send_with_headers_until_seated(client: &mut Client, path: &str, headers: &[(&str, &str)]) -> Answer {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let response = client.send("GET", path, headers, "").await.unwrap();
        if !response.body.starts_with(NO_SEAT) {
            return response;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no seat is free");
}

/// The text for a request that gets no seat on arrival.
const NO_SEAT: &str = "Too many requests, please try again later.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serves_others_while_requests_wait() {
    let server = start().await;
    let mut waiting = JoinSet::new();
    let mut other = server.connect(&server.identity("other")).await;
    for _ in 0..10 {
        // Each holds the seat until it has waited for a moment.
        let mut client = server.connect(&server.identity("jane")).await;
        waiting.spawn(async move { send_until_seated(&mut client, "/wait").await });
        assert_eq!(send_until_seated(&mut other, "/who").await.body, "other");
    }
    assert!(waiting.try_join_next().is_none());
    for response in finish(&server, waiting).await {
        assert!(["waited", TRY_LATER].contains(&response.body.as_str()), "{}", response.body);
    }
}

/// The response to a request that has waited and gets no seat again, because there is no queue.
const TRY_LATER: &str = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
    \"message\":\"Too many requests, please try again later.\",\"reason\":\"TooManyRequests\",\
    \"details\":{\"retryAfterSeconds\":1},\"code\":429}\n";

/// Ends the waiting requests.
async fn finish(server: &TestServer, mut waiting: JoinSet<Answer>) -> Vec<Answer> {
    let mut responses = Vec::new();
    while !waiting.is_empty() {
        server.end_wait.notify_waiters();
        if let Ok(Some(response)) = tokio::time::timeout(Duration::from_millis(10), waiting.join_next()).await {
            responses.push(response.unwrap());
        }
    }
    responses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_waiting_requests_per_user() {
    let server = start().await;
    let mut clients = JoinSet::new();
    for user in 0..MAX_PER_USER + 8 {
        // ImpersonatedUser users count for the authenticated caller.
        let mut client = server.connect(&server.identity("jane")).await;
        clients.spawn(async move {
            let user = format!("user-{user}");
            send_with_headers_until_seated(&mut client, "/wait", &[("impersonate-user", &user)]).await
        });
    }
    for _ in 0..8 {
        let response = clients.join_next().await.unwrap().unwrap();
        assert_eq!(response.status, 429);
        assert!(response.body.contains("too many requests of this user are waiting"), "{}", response.body);
    }
    assert!(clients.try_join_next().is_none());
    let mut other = server.connect(&server.identity("other")).await;
    assert_eq!(send_until_seated(&mut other, "/who").await.body, "other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_release_the_seat() {
    let server = start().await;
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(server.identity("jane").alpn(&["http/1.1"]).config()));
    let mut slow = connector.connect(ServerName::try_from("localhost").unwrap(), tcp).await.unwrap();
    let head =
        "POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nConnection: close\r\n\r\n01234";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut other = server.connect(&server.identity("other")).await;
    assert_eq!(send_until_seated(&mut other, "/who").await.body, "other");
    slow.write_all(b"56789").await.unwrap();
    let mut response = String::new();
    slow.read_to_string(&mut response).await.unwrap();
    assert!(response.ends_with("10 bytes"), "{response}");
    assert_eq!(send_until_seated(&mut other, "/who").await.body, "other");
}
