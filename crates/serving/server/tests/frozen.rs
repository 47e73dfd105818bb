//! Tests of health checks while the workers make no progress.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use binnacle_server::CanaryTimes;
use binnacle_testkit::https::Client;
use binnacle_testkit::wait_until;
use tokio::runtime::{Builder, Runtime};

use rig::{Freezer, Options, TestServer};

const TIMES: CanaryTimes = CanaryTimes {
    tick: Duration::from_millis(10),
    ready: Duration::from_millis(200),
    alive: Duration::from_millis(600),
    computation: Duration::from_secs(3600),
};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

struct ReleaseOnDrop(Arc<Freezer>);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Waits until a path has this status, and returns the text of the response.
async fn wait_for_status(probe: &mut Client, path: &str, status: u16) -> String {
    wait_until(path, async || {
        let response = probe.get(path).await.unwrap();
        (response.status == status).then_some(response.body)
    })
    .await
}

/// Freezes as many workers as there are requests, and returns after the server has recovered.
fn freeze(requests: usize) {
    let (front, workers, clients) = (runtime(), runtime(), runtime());
    let options = Options { front: Some(front.handle().clone()), canary: Some(TIMES), ..Options::default() };
    let server = workers.block_on(TestServer::with(options));
    let canary = server.canary.clone().unwrap();
    // A failing test does not wait for frozen workers.
    let _released = ReleaseOnDrop(server.freezer.clone());
    clients.block_on(async {
        let mut probe = server.connect(&server.identity("me")).await;
        assert_eq!(wait_for_status(&mut probe, "/livez", 200).await, "ok");
        let mut frozen = Vec::new();
        for _ in 0..requests {
            let mut client = server.connect(&server.identity("jane")).await;
            frozen.push(tokio::spawn(async move { client.get("/freeze?why").await }));
        }
        let text = wait_for_status(&mut probe, "/readyz", 500).await;
        assert_eq!(text, "[-]ping failed: reason withheld\nreadyz check failed\n");
        let doing = canary.stuck().unwrap();
        assert!(doing.contains("GET /freeze?why by \"jane\", audit ID "), "{doing}");
        let text = wait_for_status(&mut probe, "/livez?verbose", 500).await;
        assert_eq!(text, "[-]ping failed: reason withheld\nlivez check failed\n");
        assert!(!canary.is_alive());
        let text = wait_for_status(&mut probe, "/livez/ping", 500).await;
        assert!(text.starts_with("internal server error: the workers have made no progress for "), "{text}");
        server.freezer.release();
        for path in ["/livez", "/readyz", "/healthz"] {
            assert_eq!(wait_for_status(&mut probe, path, 200).await, "ok");
        }
        assert_eq!(canary.stuck(), None);
        for request in frozen {
            assert_eq!(request.await.unwrap().unwrap().body, "released");
        }
    });
    workers.block_on(server.stop());
    for runtime in [front, workers, clients] {
        runtime.shutdown_background();
    }
}

#[test]
fn frozen_workers_fail_health_checks() {
    freeze(6);
}

#[test]
fn one_frozen_worker_of_two_fails_health_checks() {
    freeze(1);
}
