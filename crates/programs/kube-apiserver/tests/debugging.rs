//! Debugging of a running server by operators: the log, metrics, `/debug`, `/logs`.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Hook, Server, ServerEnvironment, TempDir, program, wait_until};
use http_body_util::BodyExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

async fn put(client: &mut Client, path: &str, body: &str) -> Answer {
    client.send("PUT", path, &[], body.as_bytes()).await.unwrap()
}

fn lines_of<'a>(log: &'a str, text: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.contains(text)).collect()
}

#[tokio::test]
async fn log_is_klogs_and_verbosity_changes_at_runtime() {
    let mut server = Server::start(&["--ephemeral"]);
    let mut client = server.client().await;
    assert_eq!(client.get("/api/v1/nodes?limit=1").await.unwrap().status, 200);
    assert!(lines_of(&server.log(), "limit=1").is_empty());
    let answer = put(&mut client, "/debug/flags/v", "3").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "successfully set klog.logging.verbosity to 3\n"));
    assert_eq!(client.get("/api/v1/nodes?limit=2").await.unwrap().status, 200);
    for (body, want) in [
        ("x", "strconv.ParseUint: parsing \"x\": invalid syntax\n"),
        ("", "strconv.ParseUint: parsing \"\": invalid syntax\n"),
    ] {
        let answer = put(&mut client, "/debug/flags/v", body).await;
        assert_eq!((answer.status, answer.body.as_str()), (400, want));
    }
    let answer = client.get("/debug/flags/v").await.unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (406, "unsupported http method\n"));
    assert!(client.get("/debug/flags").await.unwrap().body.contains("<tr>v<br>"));
    assert_eq!(put(&mut client, "/debug/flags/v", "0").await.status, 200);
    assert_eq!(client.get("/api/v1/nodes?limit=3").await.unwrap().status, 200);
    server.terminate();
    let log = server.log();
    assert!(lines_of(&log, "limit=1").is_empty() && lines_of(&log, "limit=3").is_empty(), "{log}");
    let lines = lines_of(&log, "limit=2");
    assert_eq!(lines.len(), 1, "{log}");
    let (head, message) = lines[0].split_once("] ").unwrap();
    assert!(head.starts_with('I') && head.contains(" metrics.rs:"), "{head}");
    assert!(message.starts_with("\"HTTP\" verb=\"LIST\" URI=\"/api/v1/nodes?limit=2\" latency=\""), "{message}");
    assert!(message.contains(" apf_pl=\"exempt\" apf_fs=\"exempt\" resp=200 user=\""), "{message}");
}

#[tokio::test]
async fn no_debug_endpoints_without_profiling() {
    let server = Server::start(&["--ephemeral", "--profiling=false"]);
    let mut client = server.client().await;
    assert_eq!(put(&mut client, "/debug/flags/v", "3").await.status, 404);
    assert_eq!(client.get("/debug/pprof/").await.unwrap().status, 404);
}

/// Returns an answer with a binary body: status, media type and body.
async fn fetch(client: &mut Client, path: &str) -> (u16, String, Vec<u8>) {
    let (parts, body) = client.open("GET", path, &[], "").await.unwrap().into_parts();
    let kind = parts.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    (parts.status.as_u16(), kind.unwrap_or_default(), body.collect().await.unwrap().to_bytes().to_vec())
}

/// Returns the functions that `go tool pprof` finds in a profile.
fn top(temp: &TempDir, profile: &[u8]) -> String {
    let path = temp.join("profile");
    std::fs::write(&path, profile).unwrap();
    let output = Command::new("go").args(["tool", "pprof", "-top", "-nodecount=100000", &path]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Starts a server with heap profiling.
fn profiled() -> Server {
    let surroundings = ServerEnvironment {
        environment: vec![("_RJEM_MALLOC_CONF", "prof:true".to_owned())],
        ..ServerEnvironment::default()
    };
    Server::durable_in(surroundings, &[])
}

/// Sends requests until the task is aborted.
async fn work(mut client: Client) {
    while client.get("/openapi/v2").await.is_ok_and(|answer| answer.status == 200) {
        client.get("/api/v1/namespaces?limit=1").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_go), ignore = "needs go")]
async fn pprof_reads_profiles() {
    let (temp, server) = (TempDir::new(), profiled());
    let mut client = server.client().await;
    let working = tokio::spawn(work(server.client().await));
    let (_, _, profile) = fetch(&mut client, "/debug/pprof/profile?seconds=2").await;
    working.abort();
    let (_, _, heap) = fetch(&mut client, "/debug/pprof/heap").await;
    let (_, _, tasks) = fetch(&mut client, "/debug/pprof/goroutine").await;
    for (profile, texts) in [
        (profile, ["Type: cpu", "thread tokio"]),
        (heap, ["Type: inuse_space", ""]),
        (tasks, ["Type: goroutine", "authentication config"]),
    ] {
        let top = top(&temp, &profile);
        assert!(texts.iter().all(|text| top.contains(text)), "{top}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_profiles() {
    let server = profiled();
    let mut client = server.client().await;
    let index = client.get("/debug/pprof/").await.unwrap();
    assert!(index.status == 200 && index.body.contains("<a href='goroutine'>"), "{}", index.body);
    let moved = client.get("/debug/pprof").await.unwrap();
    assert_eq!((moved.status, moved.header("location")), (302, "/debug/pprof/"));

    let working = tokio::spawn(work(server.client().await));
    let mut second = server.client().await;
    let both = tokio::join!(
        fetch(&mut client, "/debug/pprof/profile?seconds=2"),
        fetch(&mut second, "/debug/pprof/profile?seconds=2")
    );
    working.abort();
    // Only one profile at a time.
    let (profile, refused) = if both.0.0 == 200 { (both.0, both.1) } else { (both.1, both.0) };
    assert_eq!((profile.0, profile.1.as_str()), (200, "application/octet-stream"));
    assert_eq!(
        (refused.0, refused.2.as_slice()),
        (500, &b"Could not enable CPU profiling: cpu profiling already in use\n"[..])
    );
    let (status, _, heap) = fetch(&mut client, "/debug/pprof/heap").await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&heap));
    assert_eq!(fetch(&mut client, "/debug/pprof/goroutine").await.0, 200);
    let threads = client.get("/debug/pprof/threadcreate?debug=1").await.unwrap().body;
    assert!(threads.starts_with("threadcreate profile: total ") && threads.contains("#\ttokio"), "{threads}");

    for (path, code, want) in [
        ("/debug/pprof/nothing", 404, "Unknown profile\n"),
        ("/debug/pprof/cmdline", 404, "Unknown profile\n"),
        ("/debug/pprof/heap?seconds=1", 400, "\"seconds\" parameter is not supported for this profile type\n"),
        ("/debug/pprof/symbol?0x1+x", 200, "num_symbols: 1\n"),
    ] {
        let answer = client.get(path).await.unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (code, want), "{path}");
    }
    assert_eq!(client.get("/debug/pprof/trace").await.unwrap().status, 501);
    let mut nobody = server.connect(&Handshake::new(server.admin().authority)).await;
    assert_eq!(nobody.get("/debug/pprof/").await.unwrap().status, 403);
}

#[tokio::test]
async fn debug_socket_needs_no_authentication() {
    let temp = TempDir::new();
    let path = temp.join("debug.sock");
    // A file at the path of the socket is replaced.
    std::fs::write(&path, "").unwrap();
    let server = Server::start(&["--ephemeral", "--profiling=false", "--debug-socket-path", &path]);
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for (request, want) in [
        ("GET /debug/pprof/cmdline", "\0--debug-socket-path\0"),
        ("GET /debug/pprof/goroutine?debug=1", "goroutine profile: total "),
        ("GET /debug/pprof/heap", "Heap profiles are off: "),
        ("GET /debug/flags", "<tr>v<br>"),
        ("GET /debug/flags/v", "unsupported http method"),
        ("GET /api", "404 page not found\n"),
    ] {
        let answer = ask(request);
        assert!(answer.contains(want), "{request}: {answer}");
    }
    drop(server);
}

#[tokio::test]
async fn vmodule_sets_verbosity_of_one_file() {
    let mut server = Server::start(&["--ephemeral", "--vmodule=metrics=3"]);
    let mut client = server.client().await;
    assert_eq!(client.get("/api/v1/nodes?limit=1").await.unwrap().status, 200);
    server.terminate();
    assert_eq!(lines_of(&server.log(), "limit=1").len(), 1);
}

#[tokio::test]
async fn logs_json_lines() {
    let mut server = Server::start(&["--ephemeral", "--logging-format=json", "-v=3"]);
    let mut client = server.client().await;
    assert_eq!(client.get("/api/v1/nodes?limit=1").await.unwrap().status, 200);
    server.terminate();
    let log = server.log();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["URI"] == "/api/v1/nodes?limit=1").unwrap();
    assert_eq!((&line["msg"], &line["v"], &line["resp"]), (&"HTTP".into(), &3.into(), &200.into()));
    assert!(line["ts"].is_f64() && line["caller"].as_str().unwrap().starts_with("src/metrics.rs:"), "{line}");
}

#[test]
fn splits_log_streams() {
    for (format, mark) in [("text", "] stopping"), ("json", "\"msg\":\"stopping\"")] {
        let temp = TempDir::new();
        let mut command = program();
        command.args(["--ephemeral", "--secure-port=0", "--feature-gates=LoggingAlphaOptions=true"]);
        command.args([format!("--logging-format={format}"), format!("--log-{format}-split-stream")]);
        command.args([format!("--log-{format}-info-buffer-size=64Ki"), "--log-flush-frequency=1h".to_owned()]);
        command.env("TMPDIR", temp.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.by_ref().any(|line| line.starts_with("This is the API server only.")));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(lines.any(|line| line.contains(mark)), "{format}");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && !String::from_utf8_lossy(&output.stderr).contains(mark), "{format}");
    }
}

#[tokio::test]
async fn metrics_flags_select_exposed_metrics() {
    let server = Server::start(&[
        "--ephemeral",
        "--show-hidden-metrics-for-version=1.35",
        "--disabled-metrics=apiserver_response_sizes,kubernetes_healthchecks_total",
        "--allow-metric-labels=apiserver_request_total,verb=LIST",
    ]);
    let mut client = server.client().await;
    for path in ["/api/v1/nodes", "/api/v1/namespaces/default", "/healthz"] {
        assert_eq!(client.get(path).await.unwrap().status, 200, "{path}");
    }
    let metrics = client.get("/metrics").await.unwrap().body;
    let has = |start: &str| metrics.lines().any(|line| line.starts_with(start));
    assert!(has("apiserver_request_slo_duration_seconds_count{") && has("disabled_metrics_total 2"));
    assert!(has("apiserver_flowcontrol_request_concurrency_limit{"));
    assert!(!has("apiserver_response_sizes"));
    let verbs = |verb: &str| {
        let verb = format!("verb=\"{verb}\"");
        metrics.lines().any(|line| line.starts_with("apiserver_request_total{") && line.contains(&verb))
    };
    assert!(verbs("LIST") && verbs("unexpected") && !verbs("GET"));
    assert!(!has("cardinality_enforcement_unexpected_categorizations_total 0"));
    let slis = client.get("/metrics/slis").await.unwrap().body;
    assert!(slis.contains("kubernetes_healthcheck{") && !slis.contains("kubernetes_healthchecks_total"), "{slis}");
}

#[tokio::test]
async fn logs_handler_serves_log_files() {
    let server = Server::start(&["--ephemeral", "--enable-logs-handler"]);
    let mut client = server.client().await;
    let answer = client.get("/logs/").await.unwrap();
    assert!(answer.status == 200 && answer.body.contains("<pre>\n"), "{}", answer.body);
    let answer = client.get("/logs").await.unwrap();
    assert_eq!((answer.status, answer.header("location")), (301, "logs/"));
    assert_eq!(client.get("/logs/no/such.log").await.unwrap().status, 404);
    assert_eq!(client.get("/logs/../../etc/passwd").await.unwrap().status, 400);
    let server = Server::start(&["--ephemeral"]);
    assert_eq!(server.client().await.get("/logs/").await.unwrap().status, 404);
}

#[tokio::test]
async fn rejects_requests_before_first_readiness() {
    let server = Server::start(&["--ephemeral", "--send-retry-after-while-not-ready-once"]);
    let mut client = server.client().await;
    let answer = client.get("/api/v1/nodes").await.unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (503, "5"));
    assert_eq!(answer.body, "The apiserver hasn't been fully initialized yet, please try again later.\n");
    let answer = client.get("/readyz").await.unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.header("warning").contains("The apiserver was still initializing"), "{}", answer.header("warning"));
    assert_eq!(client.get("/api/v1/nodes").await.unwrap().status, 200);
}

#[tokio::test]
async fn deletes_at_once_without_garbage_collector() {
    for (flag, want) in [("--enable-garbage-collector=false", 404), ("--enable-garbage-collector=true", 200)] {
        let server = Server::start(&["--ephemeral", flag]);
        let mut client = server.client().await;
        let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        let json = [("content-type", "application/json")];
        let path = "/api/v1/namespaces/default/configmaps";
        assert_eq!(client.send("POST", path, &json, body).await.unwrap().status, 201);
        let options = br#"{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground"}"#;
        let path = format!("{path}/a");
        assert_eq!(client.send("DELETE", &path, &json, options).await.unwrap().status, 200);
        assert_eq!(client.get(&path).await.unwrap().status, want, "{flag}");
    }
}

#[tokio::test]
async fn serves_statusz_and_flagz() {
    let server = Server::start(&["--ephemeral", "--v=2", "--enable-admission-plugins=AlwaysPullImages"]);
    let mut client = server.client().await;
    let text = client.get("/statusz").await.unwrap();
    assert_eq!((text.status, text.header("content-type")), (200, "text/plain; charset=utf-8"));
    assert!(
        text.body.starts_with("\napiserver statusz\nWarning: ") && text.body.contains("\nEmulation version: 1.36\n")
    );
    let paths = "Paths: /flagz /healthz /livez /metrics /readyz /statusz /version\n";
    assert!(text.body.ends_with(paths), "{}", text.body);
    let text = client.get("/flagz").await.unwrap().body;
    for line in ["v=2", "enable-admission-plugins=[AlwaysPullImages]", "ephemeral=true", "allow-privileged=true"] {
        assert!(text.lines().any(|message| message == line), "{line}\n{text}");
    }
    let accept = [("accept", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io")];
    let answer = client.send("GET", "/flagz", &accept, "").await.unwrap();
    assert_eq!(answer.header("content-type"), "application/json;g=config.k8s.io;v=v1beta1;as=Flagz");
    let flagz: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        (&flagz["kind"], &flagz["metadata"]["name"], &flagz["flags"]["v"]),
        (&"Flagz".into(), &"apiserver".into(), &"2".into())
    );
    let accept = [("accept", "application/yaml;as=Statusz;v=v1alpha1;g=config.k8s.io")];
    let answer = client.send("GET", "/statusz", &accept, "").await.unwrap();
    assert!(
        answer.header("warning").contains("This version of the statusz endpoint is deprecated"),
        "{:?}",
        answer.headers
    );
    assert!(answer.body.starts_with("apiVersion: config.k8s.io/v1alpha1\n"), "{}", answer.body);
    let answer = client.send("GET", "/statusz", &[("accept", "application/json")], "").await.unwrap();
    assert_eq!(answer.status, 406);
    let server = Server::start(&["--ephemeral", "--feature-gates=ComponentStatusz=false"]);
    assert_eq!(server.client().await.get("/statusz").await.unwrap().status, 404);
}

#[test]
fn notifies_systemd() {
    let temp = TempDir::new();
    let place = temp.join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut command = program();
    command.args(["--ephemeral", "--secure-port=0"]).env("TMPDIR", temp.path()).env("NOTIFY_SOCKET", &place);
    command.env("WATCHDOG_USEC", "20000").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let message = || {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut alive = 0;
    let mut until = |want: &str| loop {
        match message() {
            state if state == want => return,
            state if state == "WATCHDOG=1\n" => alive += 1,
            state => panic!("{state} before {want}"),
        }
    };
    until("READY=1\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    until("STOPPING=1\n");
    assert!(child.wait().unwrap().success() && alive > 0);
}

/// A create request that waits for a webhook is logged with the duration of the call, at verbosity 2.
#[tokio::test]
async fn logs_slow_requests_with_stages() {
    let hook = Hook::start(|request| async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": true},
        });
        let response = http::Response::builder().header("content-type", "application/json");
        response.body(answer.to_string().into_bytes()).unwrap()
    })
    .await;
    let mut server = Server::start(&["--ephemeral", "-v=2"]);
    let mut client = server.client().await;
    let configuration = json!({
        "metadata": {"name": "slow"},
        "webhooks": [{
            "name": "slow.example.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {
                "url": format!("https://{}/", hook.address), "caBundle": BASE64_STANDARD.encode(&hook.authority),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    });
    let json = [("content-type", "application/json"), ("accept", "application/json")];
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(client.send("POST", hooks, &json, configuration.to_string()).await.unwrap().status, 201);
    let mut names = 0;
    let mut create = async |client: &mut Client| {
        names += 1;
        let body = json!({"metadata": {"name": format!("m{names}")}}).to_string();
        let answer = client.send("POST", "/api/v1/namespaces/default/configmaps", &json, body).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
    };
    wait_until("a slow request is logged", async || {
        create(&mut client).await;
        server.log().contains("Trace[").then_some(())
    })
    .await;
    let log = server.log();
    let traces = lines_of(&log, "Trace[");
    assert!(traces[0].contains("\"Create\" accept:application/json,audit-id:"), "{traces:?}");
    assert!(traces[0].contains(",namespace:default,resource:configmaps,scope:resource,"), "{traces:?}");
    assert!(traces.iter().any(|line| line.contains(": ---\"validating-webhook\" 7")), "{traces:?}");
    assert_eq!(put(&mut client, "/debug/flags/v", "1").await.status, 200);
    let before = lines_of(&server.log(), "\"Create\" accept:").len();
    create(&mut client).await;
    server.terminate();
    assert_eq!(lines_of(&server.log(), "\"Create\" accept:").len(), before);
}
