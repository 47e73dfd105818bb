//! Calls to real HTTPS servers that answer, fail, send malformed responses, or do not answer.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use binnacle_request::BoxFuture;
use binnacle_testkit::Hook;
use binnacle_testkit::frames::{self, Frame};
use binnacle_webhook::{
    Backoff, Client, Credential, Loopback, OwnCertificates, Service, ServiceResolver, Target, WebhookError, parse,
};
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn answering(code: u16, body: &'static str) -> Hook {
    Hook::start(move |_| async move { Response::builder().status(code).body(body.as_bytes().to_vec()).unwrap() }).await
}

fn client(hook: &Hook, path: &str) -> Client {
    let target = parse("config".as_ref(), hook.kubeconfig(path, "secret").as_bytes()).unwrap();
    Client::new(target, Duration::from_secs(30)).unwrap()
}

#[tokio::test]
async fn sends_timeout_token_and_a_cleaned_path() {
    let hook = Hook::start(|request| async move {
        let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        let body = String::from_utf8(request.body().clone()).unwrap();
        let seen = [
            request.method().as_str(),
            &request.uri().path_and_query().unwrap().to_string(),
            &header("authorization"),
            &body,
        ]
        .join(" ");
        Response::new(seen.into_bytes())
    })
    .await;
    for (path, want) in
        [("", "POST /?timeout=30s Bearer secret {}"), ("/a//b/?c=d", "POST /a/b?timeout=30s Bearer secret {}")]
    {
        let answer = client(&hook, path).post("{}").await.unwrap();
        assert_eq!(String::from_utf8(answer.body.to_vec()).unwrap(), want);
    }
}

#[tokio::test]
async fn maps_unsuccessful_responses_to_errors() {
    let status = r#"{"kind":"Status","status":"Failure","message":"not today","code":418}"#;
    for (code, body, message, transient) in [
        (500, "boom", "an error on the server (\"boom\") has prevented the request from succeeding", true),
        (404, "", "the server could not find the requested resource", false),
        (429, "", "the server has received too many requests and has asked us to try again later", true),
        (403, status, "not today", false),
        (302, "", "the server responded with the status code 302 but did not return more information", false),
    ] {
        let hook = answering(code, body).await;
        let error = client(&hook, "").post("{}").await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_transient()), (message, transient), "{code}");
    }
}

#[tokio::test]
async fn reports_untrusted_silent_and_closed_servers() {
    let hook = answering(200, "{}").await;
    let mut stranger = Target::new(&hook.url()).unwrap();
    stranger.authorities = Some(answering(200, "").await.authority.clone().into_bytes());
    let error = Client::new(stranger.clone(), Duration::from_secs(30)).unwrap().post("{}").await.unwrap_err();
    let want = format!(
        "Post \"{}/?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority \
         (possibly because of \"x509: ECDSA verification failure\" while trying to verify candidate authority certificate \
         \"rcgen self signed cert\")",
        hook.url()
    );
    assert_eq!(error.to_string(), want);

    let mut misnamed = Target::new(&hook.url()).unwrap();
    misnamed.authorities = Some(hook.authority.clone().into_bytes());
    misnamed.server_name = Some("elsewhere".to_owned());
    let error = Client::new(misnamed, Duration::from_secs(30)).unwrap().post("{}").await.unwrap_err();
    assert!(error.to_string().contains("x509: certificate is valid for"), "{error}");

    stranger.insecure = true;
    stranger.authorities = None;
    assert_eq!(Client::new(stranger, Duration::from_secs(30)).unwrap().post("{}").await.unwrap().code, 200);

    let silent = Hook::start(|_| std::future::pending()).await;
    let target = parse("config".as_ref(), silent.kubeconfig("", "").as_bytes()).unwrap();
    let error = Client::new(target, Duration::from_millis(50)).unwrap().post("{}").await.unwrap_err();
    assert!(matches!(error, WebhookError::TimedOut { .. }), "{error}");

    let address = hook.address;
    let gone = client(&hook, "");
    drop(hook);
    // The port is closed when the server's task has ended.
    let error = loop {
        if let Err(error) = gone.post("{}").await {
            break error;
        }
    };
    let message = error.to_string();
    assert!(message.starts_with(&format!("Post \"https://{address}/?timeout=30s\": ")), "{message}");
}

#[tokio::test]
async fn backoff_retries_server_errors() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let hook = Hook::start(move |_| {
        let call = counted.fetch_add(1, Ordering::Relaxed);
        async move { Response::builder().status(if call < 2 { 500 } else { 200 }).body(Vec::new()).unwrap() }
    })
    .await;
    let client = client(&hook, "");
    Backoff::starting_at(Duration::from_millis(1)).run(|| client.post("{}")).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

/// A resolver that returns one address for every service.
#[derive(Debug)]
struct FixedAddress(String);

impl ServiceResolver for FixedAddress {
    fn resolve<'a>(&'a self, _: &'a str, _: &'a str, _: u16) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Creates a client for loopback calls to `hook`.
fn own_client(hook: &Hook, is_own: bool, most: usize) -> Client {
    let resolver: Arc<dyn ServiceResolver> = Arc::new(FixedAddress(hook.address.to_string()));
    let target = Target::new("https://kubernetes.default.svc/path").unwrap();
    let service = Service::of_own_url(&resolver, &target.url);
    let credential = Credential::Bearer("own".to_owned());
    let loopback = Loopback::new(credential, OwnCertificates::new(move |_| is_own), most);
    Client::new(Target { service, ..target }.into_loopback(loopback), Duration::from_secs(1)).unwrap()
}

#[tokio::test]
async fn loopback_calls_send_credentials_only_to_this_server() {
    let hook =
        Hook::start(|request| async move { Response::new(request.headers()["authorization"].as_bytes().to_vec()) })
            .await;
    assert_eq!(own_client(&hook, true, 1).post("{}").await.unwrap().body, "Bearer own");
    // Other servers do not receive the credential.
    let error = own_client(&hook, false, 1).post("{}").await.unwrap_err().to_string();
    assert!(error.contains("tls: failed to verify certificate"), "{error}");
}

/// The limit stops a server that calls itself recursively: waiting calls time out.
#[tokio::test]
async fn limits_concurrent_loopback_calls() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let hook = Hook::start(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    })
    .await;
    let client = own_client(&hook, true, 3);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let client = client.clone();
        waiting.spawn(async move { client.post("{}").await });
    }
    for answered in waiting.join_all().await {
        assert!(matches!(answered, Err(WebhookError::TimedOut { .. })), "{answered:?}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[test]
fn recognizes_only_the_exact_host_of_this_server() {
    let resolver: Arc<dyn ServiceResolver> = Arc::new(FixedAddress(String::new()));
    for (url, is_own) in [
        ("https://kubernetes.default.svc", true),
        ("https://kubernetes.default.svc:443/a/b", true),
        ("https://kubernetes.default.svc:6443", false),
        ("http://kubernetes.default.svc", false),
        ("https://kubernetes.default.svc.", false),
        ("https://Kubernetes.default.svc", false),
        ("https://kubernetes.default", false),
        ("https://kubernetes.default.svc.cluster.local", false),
        ("https://kubernetes.default.svc@evil.test", false),
        ("https://evil.test/kubernetes.default.svc", false),
    ] {
        let service = url.parse().ok().and_then(|url| Service::of_own_url(&resolver, &url));
        assert_eq!(service.is_some(), is_own, "{url}");
    }
}

/// A webhook that shuts down its first connections without processing their requests.
#[tokio::test]
async fn retries_requests_that_a_closing_connection_did_not_process() {
    const CLOSING: u32 = 3;
    let connections = Arc::new(AtomicU32::new(0));
    let count = connections.clone();
    let hook = Hook::raw(&["h2"], move |mut stream| {
        let closes = count.fetch_add(1, Ordering::SeqCst) < CLOSING;
        async move {
            let _ = stream.read_exact(&mut [0; 24]).await;
            let mut answer = Frame::new(frames::SETTINGS, 0, 0, &[]).bytes();
            if closes {
                answer.extend(Frame::new(frames::GOAWAY, 0, 0, &[0; 8]).bytes());
            } else {
                answer.extend(Frame::new(frames::SETTINGS, frames::ACK, 0, &[]).bytes());
                // `:status: 200` is the eighth entry of HPACK's static table.
                answer.extend(Frame::new(frames::HEADERS, 4, 1, &[0x88]).bytes());
                answer.extend(Frame::new(frames::DATA, frames::END_STREAM, 1, b"{}").bytes());
                // The response must not precede the request.
                let _ = stream.read(&mut [0; 1 << 14]).await;
            }
            let _ = stream.write_all(&answer).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    })
    .await;
    assert_eq!(client(&hook, "").post("{}").await.unwrap().body, "{}");
    assert_eq!(connections.load(Ordering::SeqCst), CLOSING + 1);
}
