//! A real Prometheus scrapes the server over TLS with a token, and the queries of dashboards and alerts have results.

use std::process::{Child, Command, Stdio};

use binnacle_testkit::https::Client;
use binnacle_testkit::{Port, Server, TempDir, wait_until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A Prometheus process, which ends when this is dropped.
pub(crate) struct Prometheus {
    child: Child,
    port: Port,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    pub(crate) fn start(temp: &TempDir, server: &Server, rules: &str, more: &[&str]) -> Self {
        let port = Port::claim();
        let target = server.url().replace("https://", "");
        let authority = temp.join("data/pki/ca-bundle.crt");
        let rules = temp.file("rules.yml", rules);
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{
                "job_name": "apiserver", "scheme": "https", "authorization": {"credentials": "metrics-token"},
                "tls_config": {"ca_file": authority}, "static_configs": [{"targets": [target]}],
            }],
        });
        // JSON is YAML.
        let config = temp.file("prometheus.yml", &config.to_string());
        let log = std::fs::File::create(temp.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={config}"))
            .arg(format!("--storage.tsdb.path={}", temp.join("tsdb")))
            .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()))
            .args(more)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, port }
    }

    /// Returns the response of its API for a path, or `None` while it does not respond.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.number())).await.ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: prometheus\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// Returns the values of a query.
    pub(crate) async fn query(&self, expression: &str) -> Option<Vec<f64>> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}")).await?;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let results = answer["data"]["result"].as_array()?;
        Some(results.iter().filter_map(|result| result["value"][1].as_str()?.parse().ok()).collect())
    }
}

const RULES: &str = r#"
groups:
- name: availability
  rules:
  - record: requests:errors:ratio
    expr: >
      sum(rate(apiserver_request_total{job="apiserver",code=~"5.."}[20s]))
      / sum(rate(apiserver_request_total{job="apiserver"}[20s]))
  - alert: ErrorBudgetBurns
    expr: requests:errors:ratio > (14.4 * 0.001)
"#;

/// Sends requests, some of them invalid.
pub(crate) async fn load(client: &mut Client) {
    let secrets = "/api/v1/namespaces/default/secrets";
    for path in ["/api/v1/namespaces/default", "/api/v1/namespaces/default/configmaps", "/api/v1/configmaps"] {
        assert_eq!(client.get(path).await.unwrap().status, 200);
    }
    let kind = [("content-type", "application/json")];
    let secret = json!({"metadata": {"generateName": "a-"}}).to_string();
    // A webhook without a server, once it is effective.
    assert!(matches!(client.send("POST", secrets, &kind, secret).await.unwrap().status, 201 | 500));
    let map = json!({"metadata": {"generateName": "a-"}}).to_string();
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(client.send("POST", maps, &kind, map).await.unwrap().status, 201);
}

/// Starts a server that accepts the token of Prometheus.
pub(crate) fn monitored(temp: &TempDir, more: &[&str]) -> Server {
    let tokens = temp.file("tokens.csv", "metrics-token,prometheus,prometheus,system:monitoring\n");
    let places = [format!("--data-dir={}", temp.join("data")), format!("--token-auth-file={tokens}")];
    Server::start(&[&places.each_ref().map(String::as_str)[..], more].concat())
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_prometheus), ignore = "needs prometheus")]
async fn documented_queries_return_results() {
    let temp = TempDir::new();
    let server = tokio::task::block_in_place(|| monitored(&temp, &[]));
    let prometheus = Prometheus::start(&temp, &server, RULES, &[]);
    let mut client = server.client().await;
    let hook = json!({
        "metadata": {"name": "nobody"},
        "webhooks": [{
            "name": "nobody.example.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
        }],
    });
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let kind = [("content-type", "application/json")];
    assert_eq!(client.send("POST", hooks, &kind, hook.to_string()).await.unwrap().status, 201);

    // The queries in docs/operating.md, each with the values that it may have.
    let positive = |value: f64| value > 0.0;
    let share = |value: f64| (0.0..=1.0).contains(&value);
    let number = |value: f64| value >= 0.0;
    let expressions: [(&str, &dyn Fn(f64) -> bool); 9] = [
        ("up{job=\"apiserver\"} == 1", &positive),
        ("1 - requests:errors:ratio", &share),
        ("ALERTS{alertname=\"ErrorBudgetBurns\",alertstate=\"firing\"}", &positive),
        (
            "histogram_quantile(0.99, sum by (le, verb) (rate(apiserver_request_sli_duration_seconds_bucket[20s]))) > 0",
            &positive,
        ),
        ("sum by (priority_level) (rate(apiserver_flowcontrol_dispatched_requests_total[20s])) > 0", &positive),
        ("sum(apiserver_flowcontrol_current_inqueue_requests)", &number),
        ("histogram_quantile(0.99, sum by (le) (rate(etcd_request_duration_seconds_bucket[20s]))) > 0", &positive),
        ("sum by (name) (rate(workqueue_adds_total[20s])) >= 0", &number),
        ("sum by (name) (workqueue_depth)", &number),
    ];
    for (expression, is_good) in expressions {
        let what = format!("{expression}\n{}", server.url());
        let values = wait_until(&what, async || {
            load(&mut client).await;
            prometheus.query(expression).await.filter(|values| !values.is_empty())
        })
        .await;
        assert!(values.iter().all(|value| is_good(*value)), "{expression}: {values:?}");
    }
    let targets = prometheus.get("/api/v1/targets").await.unwrap();
    let target = &targets["data"]["activeTargets"][0];
    assert_eq!((&target["health"], &target["lastError"]), (&json!("up"), &json!("")), "{target}");
}

/// Prometheus with native histograms prefers protobuf in its Accept header.
#[tokio::test(flavor = "multi_thread")]
async fn serves_protobuf_metrics() {
    let temp = TempDir::new();
    let server = tokio::task::block_in_place(|| monitored(&temp, &[]));
    let mut client = server.client().await;
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let headers = [("accept", accept), ("accept-encoding", "gzip")];
    let answer = client.open("GET", "/metrics", &headers, "").await.unwrap();
    assert_eq!(
        (answer.headers()["content-type"].to_str().unwrap(), answer.headers()["content-encoding"].to_str().unwrap()),
        (
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; \
             escaping=underscores",
            "gzip"
        )
    );
    assert!(answer.headers().contains_key("process-start-time-unix"));
}

/// A Prometheus with native histograms gets the other families from protobuf, too.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_prometheus), ignore = "needs prometheus")]
async fn prometheus_reads_protobuf_metrics() {
    let temp = TempDir::new();
    let server = tokio::task::block_in_place(|| monitored(&temp, &[]));
    let mut client = server.client().await;
    let prometheus = Prometheus::start(&temp, &server, "groups: []", &["--enable-feature=native-histograms"]);
    for expression in [
        "up{job=\"apiserver\"} == 1",
        "sum(apiserver_request_total) > 0",
        "process_start_time_seconds > 0",
        "histogram_quantile(0.99, sum by (le) (apiserver_request_duration_seconds_bucket)) > 0",
    ] {
        let values = wait_until(expression, async || {
            load(&mut client).await;
            prometheus.query(expression).await.filter(|values| !values.is_empty())
        });
        assert!(values.await.iter().all(|value| *value > 0.0), "{expression}");
    }
}

const NATIVE: &str = "--feature-gates=NativeHistograms=true";

/// The text format has no native histograms: with the gate, it still has the classic buckets.
#[tokio::test(flavor = "multi_thread")]
async fn native_histograms_do_not_change_text() {
    let temp = TempDir::new();
    let server = tokio::task::block_in_place(|| monitored(&temp, &[NATIVE]));
    let mut client = server.client().await;
    let text = client.get("/metrics").await.unwrap().body;
    assert!(text.contains("apiserver_request_filter_duration_seconds_bucket{filter=\"audit\",le=\"0.0001\"}"));
}

/// With the gate, Prometheus gets native histograms, from which it computes quantiles without bounds. It would reject a
/// histogram whose buckets do not add up.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_prometheus), ignore = "needs prometheus")]
async fn prometheus_reads_native_histograms() {
    let temp = TempDir::new();
    let server = tokio::task::block_in_place(|| monitored(&temp, &[NATIVE]));
    let mut client = server.client().await;
    let prometheus = Prometheus::start(&temp, &server, "groups: []", &["--enable-feature=native-histograms"]);
    for family in [
        "apiserver_request_duration_seconds",
        "apiserver_response_sizes",
        // Mostly zeros, from admission plugins that skip requests.
        "apiserver_admission_controller_admission_duration_seconds",
        "apiserver_admission_step_admission_duration_seconds",
        "apiserver_flowcontrol_request_execution_seconds",
        "apiserver_watch_cache_read_wait_seconds",
        "authorization_duration_seconds",
        "etcd_request_duration_seconds",
    ] {
        for expression in
            [format!("histogram_quantile(1, sum({family})) > 0"), format!("histogram_count({family}) > 0")]
        {
            let values = wait_until(&expression, async || {
                load(&mut client).await;
                prometheus.query(&expression).await.filter(|values| !values.is_empty())
            });
            assert!(values.await.iter().all(|value| *value > 0.0), "{expression}");
        }
    }
}
