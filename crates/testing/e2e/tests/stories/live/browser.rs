//! The page in headless Chromium, controlled by the DevTools protocol, behind a proxy that adds a token like `kubectl
//! proxy`. `BINNACLE_SCREENSHOTS` sets a directory for screenshots.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::{TIMEOUT, TempDir, wait_until};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{HOSTILE, open, rig, tls};
use crate::authorization::Rig;

/// A browser with one page. Dropping it kills the process.
struct Browser {
    child: Child,
    page: WebSocketStream<TcpStream>,
    sent: u64,
    /// Errors and messages of the page's console.
    complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// `CHROMIUM` overrides the program on the PATH.
    async fn start() -> Self {
        let program = std::env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into());
        let profile = TempDir::new();
        let mut command = Command::new(program);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--remote-debugging-port=0",
        ]);
        command.arg(format!("--user-data-dir={}", profile.join("profile"))).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let port = lines.by_ref().map(Result::unwrap).find_map(|line| {
            let (_, rest) = line.split_once("DevTools listening on ws://127.0.0.1:")?;
            rest.split_once('/').map(|(port, _)| port.to_owned())
        });
        let address = format!("127.0.0.1:{}", port.expect("chromium ended"));
        // Its further output must be read, too.
        std::thread::spawn(move || lines.for_each(drop));
        let url = page_of(&address).await;
        let page = open(TcpStream::connect(&address).await.unwrap(), &url, &[]).await.unwrap();
        let mut browser = Self { child, page, sent: 0, complaints: Vec::new(), _profile: profile };
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    async fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let call = json!({"id": self.sent, "method": method, "params": parameters});
        self.page.send(Message::Text(call.to_string().into())).await.unwrap();
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.page.next()).await.expect("the browser does not answer");
            let Message::Text(text) = next.unwrap().unwrap() else { continue };
            let told: Value = serde_json::from_str(&text).unwrap();
            if told["id"] == self.sent {
                assert_eq!(told["error"], Value::Null, "{method}: {told}");
                return told["result"].clone();
            }
            if matches!(
                told["method"].as_str(),
                Some("Log.entryAdded" | "Runtime.exceptionThrown" | "Runtime.consoleAPICalled")
            ) {
                self.complaints.push(told["params"].to_string());
            }
        }
    }

    /// Returns the value of an expression in the page.
    async fn value(&mut self, expression: &str) -> Value {
        let told = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true})).await;
        assert_eq!(told["exceptionDetails"], Value::Null, "{expression}: {told}");
        told["result"]["value"].clone()
    }

    async fn until(&mut self, what: &str, expression: &str) {
        wait_until(what, async || (self.value(expression).await == true).then_some(())).await;
    }

    async fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// Writes a screenshot, if enabled.
    async fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("BINNACLE_SCREENSHOTS") else { return };
        let told = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        let picture = BASE64_STANDARD.decode(told["data"].as_str().unwrap()).unwrap();
        std::fs::write(PathBuf::from(directory).join(name), picture).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the debugging URL of the browser's page.
async fn page_of(address: &str) -> String {
    wait_until("a page", async || {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!("GET /json HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        // The browser keeps the connection open.
        let mut answer = Vec::new();
        let pages: Vec<Value> = loop {
            let read = tokio::time::timeout(TIMEOUT, stream.read_buf(&mut answer)).await.ok()?.ok()?;
            let whole = std::str::from_utf8(&answer).ok().and_then(|text| text.split_once("\r\n\r\n"));
            match whole.and_then(|(_, body)| serde_json::from_str(body).ok()) {
                Some(pages) => break pages,
                None if read == 0 => return None,
                None => {}
            }
        };
        let page = pages.into_iter().find(|target| target["type"] == "page")?;
        Some(page["webSocketDebuggerUrl"].as_str()?.to_owned())
    })
    .await
}

/// Starts a proxy that forwards requests to the server with a token, and returns its address.
async fn proxy(rig: &std::sync::Arc<Rig>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let rig = rig.clone();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let rig = rig.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.ok()?);
                }
                let text = String::from_utf8(head).unwrap();
                // One request per connection, so that each gets the token.
                let text = text.replace("Connection: keep-alive\r\n", "Connection: close\r\n");
                let (line, rest) = text.split_once("\r\n").unwrap();
                let mut server = tls(&rig.server).await;
                let request = format!("{line}\r\nAuthorization: Bearer root\r\n{rest}");
                server.write_all(request.as_bytes()).await.ok()?;
                copy_bidirectional(&mut client, &mut server).await.ok()
            });
        }
    });
    address
}

/// Sends the requests of a cluster's clients, some of them malicious, for as long as it is polled.
async fn traffic(rig: &Rig) {
    let mut client = rig.client().await;
    for n in 0.. {
        let agents = [
            (
                "root",
                "kube-controller-manager/v1.36.2 (linux/amd64) kubernetes/0a1b2c3/system:serviceaccount:kube-system:deployment-controller",
            ),
            ("root", "kubelet/v1.36.2 (linux/amd64) kubernetes/0a1b2c3"),
            ("root", "kubectl/v1.36.2 (linux/amd64) kubernetes/0a1b2c3"),
            ("alice", HOSTILE),
            ("bob", "\u{202e}reversed"),
        ];
        let paths = [
            "/api/v1/namespaces/default/configmaps?limit=500",
            "/api/v1/nodes/n1",
            "/apis/apps/v1/deployments",
            "/api/v1/namespaces/%3Cimg%20src=x%20onerror=window.evil=1%3E/secrets/%3Cb%3E",
            "/%3Cscript%3Ewindow.evil=1%3C/script%3E",
            "/api/v1/pods?labelSelector=app%3D%3Cscript%3E",
            "/readyz",
        ];
        let (token, agent) = agents[[0, 0, 0, 1, 1, 2, 3, 4][n % 8]];
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("user-agent", agent), ("content-type", "application/json")];
        if n % 5 == 0 {
            let object = json!({"metadata": {"generateName": "settings-"}, "data": {"key": "value"}}).to_string();
            client.send("POST", "/api/v1/namespaces/default/configmaps", &headers, object).await.unwrap();
        } else {
            client.send("GET", paths[n % paths.len()], &headers, "").await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_chromium), ignore = "needs chromium")]
async fn page_escapes_text() {
    let mut browser = Browser::start().await;
    let rig = std::sync::Arc::new(rig());
    let webhook = json!({
        "metadata": {"name": "policies"},
        "webhooks": [{
            "name": "images.policies.test", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"url": "https://policies.example.test/admit"},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        }],
    });
    rig.make("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", webhook).await;
    let address = proxy(&rig).await;
    let busy = rig.clone();
    let traffic = tokio::spawn(async move { traffic(&busy).await });
    browser.look(1400, 1150, "light").await;
    browser.call("Page.navigate", json!({"url": format!("http://{address}/debug/live")})).await;
    browser.until("messages", "document.getElementById('state')?.textContent === 'live'").await;
    let cells = |table: &str| format!("[...document.querySelectorAll('#{table} td')].map((cell) => cell.textContent)");
    for (table, text) in [
        ("requests", "configmaps"),
        ("requests", "/<script>window.evil=1</script>"),
        ("clients", HOSTILE),
        ("clients", "\\\\u202ereversed"),
        ("flow", "workload-low"),
        ("caches", "configmaps"),
        ("webhooks", "images.policies.test"),
    ] {
        // All rows are shown, regardless of their position.
        let all = format!(
            "(() => {{ const more = document.querySelector('#{table} .more button'); \
             if (!more.hidden && more.getAttribute('aria-expanded') === 'false') more.click(); \
             return {}.includes(\"{text}\"); }})()",
            cells(table)
        );
        browser.until(&format!("{text} among {table}"), &all).await;
    }
    browser.until("slow requests", "document.querySelectorAll('#slowest tbody tr').length > 5").await;
    browser
        .value("document.querySelectorAll('.more button[aria-expanded=true]').forEach((more) => more.click())")
        .await;

    // Nothing that a client sent became an element or was executed.
    assert_eq!(browser.value("typeof window.evil").await, "undefined");
    assert_eq!(browser.value("document.querySelectorAll('main img, main script, main b, header img').length").await, 0);
    // The Content Security Policy prevents that text becomes elements or scripts, too.
    for attempt in [
        "document.body.innerHTML = '<b>x</b>'",
        "document.createElement('img').setAttribute('onerror', 'window.evil = 1')",
        "document.createElement('script').textContent = 'window.evil = 1'",
    ] {
        let refused = format!(
            "(() => {{ try {{ {attempt}; return false; }} catch (error) {{ return error instanceof TypeError; }} }})()"
        );
        assert_eq!(browser.value(&refused).await, true, "{attempt}");
    }
    assert_eq!(browser.value("typeof window.evil").await, "undefined");

    // Keyboard: the first element in tab order is the pause button, and columns are sorted by buttons.
    browser.value("document.querySelector('#requests th:nth-child(4) button').click()").await;
    let sorted = "document.querySelector('#requests th:nth-child(4)').getAttribute('aria-sort') === 'descending'";
    assert_eq!(browser.value(sorted).await, true);
    let totals = "[...document.querySelectorAll('#requests tbody tr')].map((row) => Number(row.children[3].textContent.replaceAll(',', '')))";
    let falls = format!(
        "(() => {{ const totals = {totals}; return totals.every((n, at) => at === 0 || totals[at - 1] >= n); }})()"
    );
    assert_eq!(browser.value(&falls).await, true);
    browser.value("document.querySelector('#requests th:nth-child(4) button').click()").await;
    browser.value("document.querySelector('#requests th:nth-child(4) button').click()").await;
    for key in ["keyDown", "keyUp"] {
        browser.call("Input.dispatchKeyEvent", json!({"type": key, "key": "p", "code": "KeyP", "text": "p"})).await;
    }
    assert_eq!(browser.value("document.getElementById('pause').getAttribute('aria-pressed')").await, "true");
    browser.value("document.getElementById('pause').click()").await;

    let complaints: Vec<_> = browser.complaints.iter().filter(|told| !is_on_purpose(told)).cloned().collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    if std::env::var_os("BINNACLE_SCREENSHOTS").is_some() {
        // Sparklines in the tiles.
        let points = "document.querySelector('.tile .line').getAttribute('d').split('L').length > 25";
        wait_until("lines", async || (browser.value(points).await == true).then_some(())).await;
    }
    browser.picture("live-wide.png").await;

    browser.look(390, 844, "dark").await;
    browser.until("the dark", "getComputedStyle(document.body).backgroundColor === 'rgb(17, 21, 27)'").await;
    // Wide tables scroll on their own; the page does not.
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 390").await, true);
    browser.picture("live-narrow.png").await;
    traffic.abort();
}

/// Returns true for console messages that the test itself causes.
fn is_on_purpose(complaint: &str) -> bool {
    ["Trusted", "favicon"].iter().any(|part| complaint.contains(part))
}
