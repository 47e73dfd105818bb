//! Attempts of a caller to impersonate another user at the server of an APIService, or to reach another path or server.

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Extension, Reply, Server, TempDir};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::aggregation::{condition, register};
use crate::aggregation_upgrades::say;
use crate::authorization::{Rig, until};

const GROUP: &str = "attack.test";
const THINGS: &str = "/apis/attack.test/v1/namespaces/team/things";

fn behave(head: &str) -> Reply {
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "v1" => Reply::json(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "attack.test/v1",
            "resources": [{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"]}]
        })),
        "switch" => Reply::Answer(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".to_vec(),
        ),
        "old" => Reply::Answer(
            b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
                .to_vec(),
        ),
        // Bodies are not read, so nothing may follow on this connection.
        _ => Reply::Last(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    }
}

/// Sends bytes on a new connection and returns the first line of the response.
async fn attack(server: &Server, text: &str) -> String {
    let (head, mut stream) = say(server, text).await;
    if !head.starts_with("HTTP/1.1 101 ") {
        // By then, anything that was smuggled has been answered or rejected.
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(std::time::Duration::from_millis(300), stream.read_to_end(&mut rest)).await;
    }
    head.lines().next().unwrap_or_default().to_owned()
}

/// A request of a caller, and how the server handles it.
struct Attempt {
    method: &'static str,
    target: String,
    /// The rest of the request, after its first headers.
    rest: String,
    status: u16,
    /// The path at the other server, or empty if it gets no request.
    path: &'static str,
}

impl Attempt {
    fn new(method: &'static str, target: String, rest: impl Into<String>, status: u16, path: &'static str) -> Self {
        Self { method, target, rest: rest.into(), status, path }
    }
}

fn misleading_headers() -> Vec<Attempt> {
    vec![
        // Connection-specific headers cannot be this server's own.
        Attempt::new(
            "GET",
            format!("{THINGS}/one"),
            "Connection: X-Remote-User, X-Remote-Group, Via, Host\r\nX-Remote-User: mallory\r\n\r\n",
            200,
            "/one",
        ),
        Attempt::new(
            "GET",
            format!("{THINGS}/two"),
            "Connection: close\r\nConnection: x-remote-user\r\n\r\n",
            200,
            "/two",
        ),
        Attempt::new(
            "GET",
            format!("{THINGS}/three"),
            "X_Remote_User: mallory\r\nX-Remote_Group: mallory\r\n\r\n",
            200,
            "/three",
        ),
    ]
}

fn misleading_targets() -> Vec<Attempt> {
    vec![
        // The host, user and fragment of the target are not passed to the other server.
        Attempt::new("GET", format!("https://mallory:mallory@mallory.test{THINGS}/four"), "\r\n", 200, "/four"),
        Attempt::new("GET", format!("{THINGS}/..%2f..%2ffive"), "\r\n", 200, "/../../five"),
        Attempt::new(
            "GET",
            format!("{THINGS}/six%0d%0aX-Remote-User:%20mallory%0d%0a"),
            "\r\n",
            200,
            "/six%0D%0AX-Remote-User:%20mallory%0D%0A",
        ),
        Attempt::new("GET", format!("{THINGS}/seven%3fa%23"), "\r\n", 200, "/seven%3Fa%23"),
        Attempt::new("CONNECT", "localhost:22".to_owned(), "\r\n", 404, ""),
    ]
}

fn ambiguous_bodies() -> Vec<Attempt> {
    let smuggled = format!("GET {THINGS}/smuggled HTTP/1.1\r\nHost: h\r\nX-Remote-User: mallory\r\n\r\n");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n{smuggled}");
    vec![
        // The length of a body must be unambiguous.
        Attempt::new("POST", format!("{THINGS}/eight"), format!("Content-Length: 3\r\n{chunked}"), 200, "/eight"),
        Attempt::new("POST", format!("{THINGS}/nine"), format!("Transfer-Encoding: chunked\r\n{chunked}"), 501, ""),
        Attempt::new("POST", format!("{THINGS}/ten"), format!("Transfer-Encoding: xchunked\r\n{chunked}"), 501, ""),
        Attempt::new(
            "POST",
            format!("{THINGS}/eleven"),
            format!("Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd{smuggled}"),
            400,
            "",
        ),
        Attempt::new(
            "POST",
            format!("{THINGS}/twelve"),
            "Transfer-Encoding: chunked\r\nTrailer: X-Remote-User\r\n\r\n3\r\nabc\r\n0\r\nX-Remote-User: mallory\r\n\r\n",
            200,
            "/twelve",
        ),
    ]
}

fn other_protocols() -> Vec<Attempt> {
    let upgrade = "Connection: Upgrade, X-Remote-User\r\nUpgrade: websocket\r\nX-Remote-User: mallory\r\n\r\n";
    vec![
        // After a response with HTTP/1.0 the server still sends HTTP/1.1.
        Attempt::new("GET", format!("{THINGS}/old"), "\r\n", 200, "/old"),
        Attempt::new("GET", format!("{THINGS}/old"), "\r\n", 200, "/old"),
        // Upgrades.
        Attempt::new("GET", format!("{THINGS}/switch"), upgrade, 101, "/switch"),
        // HTTP inside the connection would have no identity except the caller's own.
        Attempt::new(
            "GET",
            format!("{THINGS}/thirteen"),
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
            200,
            "/thirteen",
        ),
        Attempt::new(
            "GET",
            format!("{THINGS}/switch"),
            "Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n\r\n",
            503,
            "/switch",
        ),
    ]
}

/// For any input, the other server sees exactly one request, for the authorized path and by the authenticated caller.
#[tokio::test(flavor = "multi_thread")]
async fn forwards_one_request_for_the_authorized_path() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, GROUP, "True").await;
    until("requests are handed on", async || rig.code("root", "GET", &format!("{THINGS}/x")).await == 200).await;

    let attempts = [misleading_headers(), misleading_targets(), ambiguous_bodies(), other_protocols()];
    for attempt in attempts.iter().flatten() {
        check(&rig.server, &extension, attempt).await;
    }
    ignores_the_authority_of_http2(&rig.server, &extension).await;
}

/// Sends a request, and checks what the other server gets.
async fn check(server: &Server, extension: &Extension, attempt: &Attempt) {
    let Attempt { method, target, rest, status, path } = attempt;
    let before = extension.seen().len();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: mallory.test\r\nAuthorization: Bearer root\r\n");
    let answered = attack(server, &format!("{head}{rest}")).await;
    assert!(answered.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {answered}");
    let seen: Vec<String> = extension.seen()[before..].iter().map(|head| head.to_lowercase()).collect();
    let seen: Vec<&String> = seen.iter().filter(|head| head.contains("/namespaces/")).collect();
    if path.is_empty() {
        assert!(seen.is_empty(), "{target}: {seen:?}");
        return;
    }
    let [head] = seen.as_slice() else { panic!("{target}: {seen:?}") };
    assert_names_the_caller(attempt, head, extension.address.port());
}

/// Asserts that a request at the other server is for the authorized path, and by the authenticated caller only.
fn assert_names_the_caller(attempt: &Attempt, head: &str, port: u16) {
    let Attempt { method, target, status, path, .. } = attempt;
    let lines: Vec<&str> = head.lines().collect();
    let first = format!("{method} {THINGS}{path} HTTP/1.1").to_lowercase();
    assert_eq!(lines[0], first, "{target}");
    let host = format!("host: localhost:{port}");
    for want in [host.as_str(), "x-remote-user: root", "x-remote-group: system:masters"] {
        assert_eq!(lines.iter().filter(|line| **line == want).count(), 1, "{target}: {want} in {head}");
    }
    assert!(!lines[1..].iter().any(|line| line.contains("mallory") && !line.starts_with("x-forwarded-uri:")), "{head}");
    let hidden = ["x_remote", "authorization:", "trailer:", "http2-settings:", "upgrade: h"];
    assert!(!lines.iter().any(|line| hidden.iter().any(|name| line.starts_with(name))), "{head}");
    if *status == 101 {
        assert!(lines.contains(&"connection: upgrade"), "{head}");
    }
}

/// With HTTP/2 the authority is only a header, and cannot select another server either.
async fn ignores_the_authority_of_http2(server: &Server, extension: &Extension) {
    let handshake = Handshake::new(server.admin().authority).alpn(&["h2"]);
    let mut client = server.connect(&handshake).await;
    let headers =
        [("authorization", "Bearer root"), ("host", "mallory.test"), ("x-remote-user", "mallory"), ("te", "trailers")];
    let answer = client.send("GET", &format!("{THINGS}/last"), &headers, "").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let seen = extension.seen().into_iter().find(|head| head.contains("/last ")).unwrap().to_lowercase();
    assert!(!seen.contains("mallory") && seen.contains("x-remote-user: root"), "{seen}");
}
