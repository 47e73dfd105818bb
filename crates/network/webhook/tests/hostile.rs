//! Webhooks with endless responses.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use binnacle_testkit::{Hook, Hostile};
use binnacle_webhook::{Client, Target, parse};
use binnacle_work::{Caller, WorkBudget, WorkLimits};
use http::Response;

#[tokio::test]
async fn limits_endless_responses() {
    let hostile = Hostile::start(IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
    for (path, want) in [
        ("digits", "chunked encoding contains too much non-data"),
        ("spaces", "chunked encoding contains too much non-data"),
        ("informational", "net/http: server response headers exceeded 1048576 bytes; aborted"),
        // Bodies are not decompressed.
        ("page", "length limit exceeded"),
    ] {
        let target = Target::new(&format!("http://127.0.0.1:{}/{path}", hostile.port())).unwrap();
        let error = Client::new(target, Duration::from_secs(300)).unwrap().post("{}").await.unwrap_err();
        assert!(error.to_string().contains(want), "{path}: {error}");
    }
}

fn client(hook: &Hook) -> Client {
    Client::new(parse("config".as_ref(), hook.kubeconfig("", "secret").as_bytes()).unwrap(), Duration::from_secs(300))
        .unwrap()
}

#[tokio::test]
async fn errors_contain_at_most_2048_bytes_of_the_body() {
    let hook = Hook::start(|_| async {
        Response::builder().status(500).header("content-type", "text/plain").body(vec![b'x'; 1 << 20]).unwrap()
    })
    .await;
    let error = client(&hook).post("{}").await.unwrap_err().to_string();
    assert_eq!(error.matches('x').count(), 2048);
}

/// Responses in use by one caller, or requested by it, are limited like its large requests.
#[tokio::test]
async fn limits_the_memory_of_responses_by_caller() {
    const LARGE: usize = 7 << 20;
    let hook = Hook::start(|_| async { Response::new(vec![b' '; LARGE]) }).await;
    let client = client(&hook);
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    budget.set_caller(Caller { name: "user".into(), is_system: false });
    let mut answers = Vec::new();
    let refused = loop {
        match budget.run(std::pin::pin!(client.post("{}"))).await {
            Ok(answer) => answers.push(answer),
            Err(error) => break error.to_string(),
        }
        assert!(answers.len() < 30);
    };
    assert!(answers.len() >= 10, "{}", answers.len());
    assert!(refused.contains("the memory for large requests is in use"), "{refused}");
    answers.clear();
    assert!(budget.run(std::pin::pin!(client.post("{}"))).await.is_ok());
}
