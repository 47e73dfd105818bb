//! Vulnerabilities that revealed secrets, or stored data from arbitrary clients.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_testkit::{Hook, TempDir};
use http::Response;
use serde_json::{Value, json};

use super::{ACCOUNTS, rig};
use crate::authorization::{Rig, until};

/// CVE-2020-8552: each new path, method or media type created new metrics until the memory was used up, without any
/// permissions.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_do_not_grow_with_request_paths() {
    let rig = rig(&[]).await;
    let series = async |rig: &Rig| -> BTreeSet<String> {
        let text = rig.send("root", "GET", "/metrics", &Value::Null).await.body;
        let names = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    let ask = async |rig: &Rig, n: u32| {
        let method = format!("M{n}");
        for (method, path) in [
            (method.as_str(), "/api/v1/pods".to_owned()),
            ("GET", format!("/apis/group{n}.io/v1/things")),
            ("GET", format!("/api/v{n}/pods")),
            ("GET", format!("/api/v1/things{n}")),
            ("GET", format!("/api/v1/namespaces/n{n}/pods/p{n}/sub{n}")),
            ("GET", format!("/nothing/{n}")),
            ("GET", format!("/healthz/check{n}")),
            ("GET", format!("/api/v1/pods?labelSelector=a{n}=b&fieldSelector=metadata.name={n}&timeout={n}s")),
            ("POST", format!("/api/v1/namespaces/team/pods?dryRun=Some{n}&fieldValidation=V{n}&fieldManager=m{n}")),
        ] {
            for token in ["alice", "root", &format!("unknown-{n}")] {
                let bearer = format!("Bearer {token}");
                let (agent, kind) = (format!("agent{n}/1"), format!("application/x-{n}"));
                let headers = [
                    ("authorization", bearer.as_str()),
                    ("user-agent", agent.as_str()),
                    ("accept", kind.as_str()),
                    ("content-type", kind.as_str()),
                    ("impersonate-user", agent.as_str()),
                ];
                rig.client().await.send(method, &path, &headers, "{}").await.unwrap();
            }
        }
    };
    // Other series appear, too, on their first event and not with each request: at some point a round adds none.
    let mut known = BTreeSet::new();
    let mut rounds = 0;
    loop {
        ask(&rig, rounds).await;
        rounds += 1;
        let now = series(&rig).await;
        let named: Vec<&String> = now.iter().filter(|series| (0..rounds).any(|n| named(series, n))).collect();
        assert!(named.is_empty(), "{named:?}");
        let new: Vec<&String> = now.difference(&known).collect();
        if new.is_empty() {
            break;
        }
        assert!(rounds < 60, "{new:?}");
        known.extend(now);
    }
}

/// Returns true if a label of a series comes from the n-th round.
fn named(series: &str, n: u32) -> bool {
    [format!("M{n}\""), format!("group{n}."), format!("things{n}\""), format!("agent{n}"), format!("x-{n}\"")]
        .iter()
        .any(|part| series.contains(part.as_str()))
}

/// CVE-2019-11250 and CVE-2020-8565: credentials in verbose logs, both received ones and those that the server sends.
#[tokio::test(flavor = "multi_thread")]
async fn logs_hold_no_credentials() {
    let hook = Hook::start(|_| async {
        let review = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": {}});
        Response::new(review.to_string().into_bytes())
    })
    .await;
    let temp = TempDir::new();
    let rig = rig(&[
        "--v=10".to_owned(),
        "--authentication-token-webhook-version=v1".to_owned(),
        format!(
            "--authentication-token-webhook-config-file={}",
            temp.file("hook", &hook.kubeconfig("/r", "hidden-own"))
        ),
    ])
    .await;
    assert_eq!(rig.code("hidden-unknown", "GET", "/api/v1/nodes").await, 401);
    let in_protocol = BASE64_URL_SAFE_NO_PAD.encode("hidden-protocol");
    let protocol = format!("base64url.bearer.authorization.k8s.io.{in_protocol}, v5.channel.k8s.io");
    let headers = [("sec-websocket-protocol", protocol.as_str()), ("authorization", "Basic aGlkZGVuOmJhc2lj")];
    rig.client().await.send("GET", "/api/v1/nodes", &headers, "").await.unwrap();
    let review = json!({"spec": {"token": "hidden-reviewed"}});
    rig.send("root", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    let request = rig.send("root", "POST", &format!("{ACCOUNTS}/default/token"), &json!({"spec": {}})).await;
    let issued: Value = serde_json::from_str(&request.body).unwrap();
    let issued = issued["status"]["token"].as_str().unwrap().to_owned();
    rig.code(&issued, "GET", "/api/v1/nodes").await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden-data"}});
    rig.make("/api/v1/namespaces/team/secrets", secret).await;
    let read = || std::fs::read_to_string(rig.server.temp().path().join("stderr")).unwrap();
    // The log is verbose: it has the last request.
    until("the log tells of it", async || read().contains("/api/v1/namespaces/team/secrets")).await;
    let log = read();
    let signature = issued.rsplit('.').next().unwrap();
    for hidden in ["hidden", "aGlkZGVu", in_protocol.as_str(), signature] {
        let at = log.find(hidden).map(|at| log[..at].lines().last().unwrap_or_default());
        assert_eq!(at, None, "{hidden}");
    }
}
