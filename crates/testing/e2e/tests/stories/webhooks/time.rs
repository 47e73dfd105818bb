//! Webhooks that are slow or never answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use binnacle_testkit::Server;
use futures::future::join_all;
use tokio::sync::Semaphore;

use super::*;

/// The number of requests that wait for the hanging webhook.
const WAITING: usize = 1000;

/// Starts a webhook that counts calls and answers none.
async fn hanging() -> (Hook, Arc<AtomicUsize>) {
    let calls: Arc<AtomicUsize> = Arc::default();
    let counted = calls.clone();
    let hook = Hook::start(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    })
    .await;
    (hook, calls)
}

/// Many optional webhooks use up a request's time: it is answered in time, with a warning. In kube-apiserver it fails
/// (<https://issues.k8s.io/128162>).
#[tokio::test(flavor = "multi_thread")]
async fn skips_slow_optional_webhooks_in_time() {
    let (hook, _) = hanging().await;
    let server = Server::ephemeral();
    let more = json!({"failurePolicy": "Ignore", "timeoutSeconds": 10});
    let hooks = |prefix: &str| (0..10).map(|i| webhook(&format!("{prefix}{i}"), &hook, more.clone())).collect();
    configure(&server, Kind::Mutating, "m", hooks("m")).await;
    configure(&server, Kind::Validating, "v", hooks("v")).await;
    let tried = try_config_map(&server, "&timeout=3s").await;
    assert_eq!(tried.status, 201, "{}", tried.body);
    let warning = "admission webhook \\\"m0.hooks.test\\\" was not waited for: the request had no time left for it";
    assert!(tried.warnings.iter().any(|told| told.contains(warning)), "{:?}", tried.warnings);
    let passed_over = "binnacle_admission_webhook_passed_over_total";
    assert_eq!(metric(&server, passed_over, "reason=\"deadline\"").await, 20.0);
    assert_eq!(metric(&server, "apiserver_admission_webhook_fail_open_count", "").await, 20.0);
}

/// Requests do not each wait for a server that does not answer: with `Ignore` it is skipped, with `Fail` they fail at
/// once with the reason. Once it answers again, it is called again.
#[tokio::test(flavor = "multi_thread")]
async fn opens_the_circuit_of_an_unresponsive_webhook() {
    let calls: Arc<AtomicUsize> = Arc::default();
    let alive = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let hook = {
        let (calls, alive) = (calls.clone(), alive.clone());
        Hook::start(move |request: Request<Vec<u8>>| {
            calls.fetch_add(1, Ordering::Relaxed);
            let alive = alive.clone();
            async move {
                if !alive.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                answer(request.body(), &|_| json!({}))
            }
        })
        .await
    };
    let server = Server::ephemeral();
    let with = |policy: &str| vec![webhook("w", &hook, json!({"failurePolicy": policy, "timeoutSeconds": 1}))];
    configure(&server, Kind::Validating, "v", with("Ignore")).await;
    wait_until("the server to be left alone", async || {
        assert_eq!(try_config_map(&server, "").await.status, 201);
        (metric(&server, "binnacle_admission_webhook_passed_over_total", "reason=\"dead\"").await >= 10.0).then_some(())
    })
    .await;
    assert!(metric(&server, "binnacle_admission_webhook_breakers_open", "").await == 1.0);
    let made = metric(&server, "apiserver_admission_webhook_request_total", "name=\"w.hooks.test\"").await;
    assert!(made - calls.load(Ordering::Relaxed) as f64 >= 10.0);

    configure(&server, Kind::Validating, "v", with("Fail")).await;
    let tried = try_config_map(&server, "").await;
    let told = tried.body["message"].as_str().unwrap();
    assert!(tried.status == 500 && told.contains("context deadline exceeded"), "{told}");
    alive.store(true, Ordering::Relaxed);
    wait_until("the server to be asked again", async || {
        (try_config_map(&server, "").await.status == 201).then_some(())
    })
    .await;
    assert!(metric(&server, "binnacle_admission_webhook_breakers_open", "").await == 0.0);
}

/// Requests that wait for a webhook delay no others, and take little memory.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_requests_do_not_delay_others() {
    let (hook, calls) = hanging().await;
    let server = Server::ephemeral();
    configure(&server, Kind::Validating, "v", vec![webhook("w", &hook, json!({"timeoutSeconds": 30}))]).await;
    let before = memory(&server);
    // Handshakes take time, and none should wait for all others.
    let connecting = Semaphore::new(20);
    let wait = async || {
        let connected = connecting.acquire().await.unwrap();
        let mut client = server.client().await;
        drop(connected);
        let object = json!({"metadata": {"name": "tried"}}).to_string();
        let path = format!("{CONFIG_MAPS}?dryRun=All&timeout=30s");
        client.send("POST", &path, &[("content-type", "application/json")], object).await
    };
    let waiting = join_all((0..WAITING).map(|_| wait()));
    let others = async {
        wait_until("all requests to wait", async || (calls.load(Ordering::Relaxed) == WAITING).then_some(())).await;
        for i in 0..100 {
            let secret = json!({"metadata": {"name": format!("s{i}")}});
            assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/secrets", &secret).await.status, 201);
        }
        memory(&server)
    };
    // The waiting requests are cancelled when the others are done.
    tokio::select! {
        answers = waiting => panic!("{} have been answered", answers.len()),
        during = others => {
            let each = during.saturating_sub(before) / WAITING;
            assert!(each < 256 << 10, "a request that waits takes {each} bytes");
        }
    }
}

/// Returns the resident memory of the server in bytes.
fn memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
