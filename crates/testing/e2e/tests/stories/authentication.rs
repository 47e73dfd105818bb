//! Authentication: front proxies, bootstrap tokens, token webhooks, issuers of ID tokens, and anonymous requests.

mod id_tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_jwt::{PrivateKey, private_from_pem};
use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Hook, Server, TempDir, wait_until};
use http::{Request, Response};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A CA with certificates that it signed, as PEM.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Returns a certificate and key for a common name and organizations.
    fn sign(&self, name: &str, organizations: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for organization in organizations {
            params.distinguished_name.push(DnType::OrganizationName, *organization);
        }
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Returns the CA of a server whose administrators have their own certificates.
fn trusted(server: &Server) -> String {
    let mut words = server.lines[2].split_whitespace().skip_while(|word| *word != "--certificate-authority");
    std::fs::read_to_string(words.nth(1).unwrap()).unwrap()
}

/// Returns the status code, and the name and groups of a SelfSubjectReview with these headers.
async fn who(client: &mut Client, headers: &[(&str, &str)]) -> (u16, String) {
    let body = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
    let headers = [headers, &[("content-type", "application/json")]].concat();
    let answer = client.send("POST", SELF, &headers, body).await.unwrap();
    (answer.status, shown(&answer))
}

fn shown(answer: &Answer) -> String {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let user = &body["status"]["userInfo"];
    let groups = user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    format!("{} {}", user["username"].as_str().unwrap_or_default(), groups.collect::<Vec<_>>().join(","))
}

pub(crate) async fn bearer(server: &Server, token: &str) -> (u16, String) {
    let mut client = server.connect(&Handshake::new(server.admin().authority)).await;
    who(&mut client, &[("authorization", &format!("Bearer {token}"))]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_user_headers_only_from_front_proxies() {
    let (proxies, clients) = (Authority::new(), Authority::new());
    let temp = TempDir::new();
    let arguments = [
        "--ephemeral".to_owned(),
        format!("--requestheader-client-ca-file={}", temp.file("proxies.crt", &proxies.pem)),
        "--requestheader-allowed-names=proxy".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--token-auth-file={}", temp.file("tokens", "secret,holder,1\n")),
    ];
    let server = Server::start(&arguments.each_ref().map(String::as_str));
    let trusted = server.admin().authority;
    let mut with = Vec::new();
    for (authority, name) in [(&proxies, "proxy"), (&proxies, "other"), (&clients, "proxy")] {
        let (certificate, key) = authority.sign(name, &[]);
        let mut handshake = Handshake::new(&*trusted).identity(&certificate, &key);
        // With HTTP/2 the connection would end after the first refusal.
        handshake = handshake.alpn(&["http/1.1"]);
        with.push(handshake);
    }
    let jane = ("x-remote-user", "jane");
    let masters = ("x-remote-group", "system:masters");
    for (headers, want) in [
        (&[jane][..], (201, "jane system:authenticated")),
        (
            &[("X-REMOTE-USER", "jane"), ("X-Remote-Group", "a"), ("x-remote-group", "b")],
            (201, "jane a,b,system:authenticated"),
        ),
        // The first name counts, as with the proxy that wrote it.
        (&[jane, ("x-remote-user", "root")], (201, "jane system:authenticated")),
        (&[masters], (401, " ")),
        (&[("x-remote-user", ""), masters], (401, " ")),
        // Underscores are not dashes.
        (&[("x_remote_user", "jane")], (401, " ")),
        (&[jane, ("authorization", "Bearer secret")], (201, "jane system:authenticated")),
    ] {
        let mut client = server.connect(&with[0]).await;
        let (code, user) = who(&mut client, headers).await;
        // The proxy's own certificate is no identity: without a user header the request is anonymous and forbidden.
        let want_code = if want.0 == 401 { 403 } else { want.0 };
        assert!(
            (code, user.as_str()) == want || (code, user.as_str()) == (want_code, " "),
            "{headers:?}: {code} {user}"
        );
        if want.0 == 201 {
            assert_eq!((code, user.as_str()), want, "{headers:?}");
        }
    }
    // Headers are only trusted from a proxy: not with another name, a certificate of another CA, or none.
    for handshake in [&with[1], &with[2], &Handshake::new(&*trusted).alpn(&["http/1.1"])] {
        let Ok(mut client) = Client::connect(server.address, handshake).await else { continue };
        let headers = [jane, masters];
        let body = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
        let answer =
            client.send("POST", SELF, &[&headers[..], &[("content-type", "application/json")]].concat(), body).await;
        let answer =
            answer.map(|answer| (answer.status, answer.body.contains("jane"), answer.body.contains("masters")));
        assert!(matches!(answer, Err(_) | Ok((401 | 403, false, false))), "{answer:?}");
        let Ok(mut client) = Client::connect(server.address, handshake).await else { continue };
        let token = [jane, masters, ("authorization", "Bearer secret")];
        if let Ok(answer) = client.send("GET", "/api/v1/secrets", &token, "").await {
            assert!(matches!(answer.status, 401 | 403) && !answer.body.contains("jane"), "{}", answer.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authenticates_bootstrap_tokens() {
    let server = Server::start(&["--ephemeral", "--enable-bootstrap-token-auth"]);
    let mut admin = server.client().await;
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let json = [("content-type", "application/json")];
    let mut make = async |id: &str, changes: Value| {
        let mut data = json!({
            "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:test"
        });
        for (member, value) in changes.as_object().unwrap() {
            data[member] = value.clone();
        }
        let secret = json!({
            "metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token", "stringData": data
        });
        let made = admin.send("POST", secrets, &json, secret.to_string()).await.unwrap();
        assert_eq!(made.status, 201, "{}", made.body);
    };
    make("aaaaaa", json!({})).await;
    make("bbbbbb", json!({"expiration": "2020-01-01T00:00:00Z"})).await;
    make("cccccc", json!({"usage-bootstrap-authentication": "false"})).await;
    make("dddddd", json!({"auth-extra-groups": "system:masters"})).await;
    let good = "aaaaaa.0123456789abcdef";
    wait_until("the token to be known", async || (bearer(&server, good).await.0 == 201).then_some(())).await;
    let known = "system:bootstrap:aaaaaa system:bootstrappers,system:bootstrappers:test,system:authenticated";
    assert_eq!(bearer(&server, good).await, (201, known.to_owned()));
    for token in [
        "aaaaaa.0123456789abcdeg",
        "aaaaaa.0123456789abcde",
        "aaaaaa.",
        "bbbbbb.0123456789abcdef",
        "cccccc.0123456789abcdef",
        "dddddd.0123456789abcdef",
        "eeeeee.0123456789abcdef",
    ] {
        assert_eq!(bearer(&server, token).await.0, 401, "{token}");
    }
    // It expires with its secret, even if it is cached.
    let gone = admin.send("DELETE", &format!("{secrets}/bootstrap-token-aaaaaa"), &[], "").await.unwrap();
    assert_eq!(gone.status, 200);
    wait_until("the token to be gone", async || (bearer(&server, good).await.0 == 401).then_some(())).await;
}

/// Starts a token webhook whose response depends on the token.
async fn reviewer(calls: Arc<AtomicU32>) -> Hook {
    Hook::start(move |request: Request<Vec<u8>>| {
        let calls = calls.clone();
        async move {
            calls.fetch_add(1, Ordering::SeqCst);
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            let known = json!({"authenticated": true, "user": {"username": "hooked", "groups": ["g"]}});
            let (mut code, mut version, mut status) = (200, "authentication.k8s.io/v1", known.clone());
            match review["spec"]["token"].as_str().unwrap_or_default() {
                "good" => {}
                "slow" => tokio::time::sleep(Duration::from_millis(700)).await,
                // Holds the connection for longer than any timeout here.
                "held" => tokio::time::sleep(Duration::from_secs(600)).await,
                "elsewhere" => status["audiences"] = json!(["somebody else"]),
                "broken" => code = 500,
                "other-version" => version = "authentication.k8s.io/v1beta1",
                "huge" => status["user"]["username"] = "x".repeat(16 << 20).into(),
                "no-bool" => status["authenticated"] = json!("yes"),
                "garbage" => return Response::new(b"{\"kind\":".to_vec()),
                _ => status = json!({"authenticated": false}),
            }
            let body = json!({"kind": "TokenReview", "apiVersion": version, "status": status}).to_string();
            Response::builder().status(code).body(body.into_bytes()).unwrap()
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_every_response_of_a_token_webhook() {
    let calls = Arc::<AtomicU32>::default();
    let hook = reviewer(calls.clone()).await;
    let temp = TempDir::new();
    let (policy, log) =
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n", temp.join("audit.log"));
    let server = Server::start(&[
        "--ephemeral",
        "--authentication-token-webhook-config-file",
        &temp.file("hook", &hook.kubeconfig("/review", "t")),
        "--authentication-token-webhook-version=v1",
        "--audit-policy-file",
        &temp.file("policy", policy),
        "--audit-log-path",
        &log,
    ]);
    let hooked = (201, "hooked g,system:authenticated".to_owned());
    for (token, want) in [("good", hooked.clone()), ("slow", hooked.clone()), ("good", hooked.clone())] {
        assert_eq!(bearer(&server, token).await, want, "{token}");
    }
    // A cached response is not requested again.
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    // The audit log has the latency of authentication.
    let told = wait_until("the slow request to be told of", async || {
        let log = std::fs::read_to_string(&log).ok()?;
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let slow = events.map(|event| event["annotations"].clone());
        slow.into_iter().find(|annotations| annotations.get("apiserver.latency.k8s.io/total").is_some())
    })
    .await;
    for part in ["authorization", "apf-queue-wait", "serialize-response-object", "response-write"] {
        assert!(told.get(format!("apiserver.latency.k8s.io/{part}")).is_some(), "{part}: {told}");
    }
    let time = told["apiserver.latency.k8s.io/authentication"].as_str().unwrap();
    assert!(time.starts_with("7") && time.ends_with("ms") || time.ends_with('s'), "{told}");
    for token in ["elsewhere", "other-version", "huge", "no-bool", "garbage", "unknown"] {
        let (code, _) = bearer(&server, token).await;
        assert_eq!(code, 401, "{token}");
    }
    // A request that waits for a hanging webhook does not delay others.
    let mut waiting = server.connect(&Handshake::new(server.admin().authority)).await;
    let held = tokio::spawn(async move { who(&mut waiting, &[("authorization", "Bearer held")]).await });
    assert_eq!(bearer(&server, "good").await, hooked);
    assert_eq!(server.client().await.get("/api/v1/nodes").await.unwrap().status, 200);
    held.abort();
    // With the webhook down, cached users are authenticated and others are not.
    drop(hook);
    assert_eq!(bearer(&server, "good").await, hooked);
    assert_eq!(bearer(&server, "new").await.0, 401);
    let metrics = server.client().await.get("/metrics").await.unwrap().body;
    assert!(metrics.contains("authentication_token_cache_request_total{status=\"hit\"}"), "{metrics}");
    assert!(metrics.contains("authentication_token_cache_active_fetch_count{status=\"blocked\"}"));
}

pub(crate) fn key() -> PrivateKey {
    private_from_pem(KeyPair::generate().unwrap().serialize_pem().as_bytes()).unwrap()
}

/// An OpenID provider that has one key at a time.
pub(crate) struct Provider {
    pub(crate) hook: Hook,
    keys: Arc<Mutex<Value>>,
}

impl Provider {
    pub(crate) async fn start(key: &PrivateKey) -> Self {
        let keys = Arc::new(Mutex::new(json!({"keys": [key.public().to_jwk()]})));
        let (served, address) = (keys.clone(), Arc::new(Mutex::new(String::new())));
        let own = address.clone();
        let hook = Hook::start(move |request| {
            let issuer = own.lock().clone();
            let body = match request.uri().path() {
                "/.well-known/openid-configuration" => json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}),
                _ => served.lock().clone(),
            };
            async move { Response::new(body.to_string().into_bytes()) }
        })
        .await;
        *address.lock() = hook.url();
        Self { hook, keys }
    }

    pub(crate) fn claims(&self, changes: Value) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({"iss": self.hook.url(), "aud": "cluster", "iat": now, "exp": now + 600, "sub": "jane"});
        for (claim, value) in changes.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        claims
    }

    fn entry(&self, mappings: &str) -> String {
        let authority = serde_json::to_string(&self.hook.authority).unwrap();
        let url = self.hook.url();
        format!(
            "- issuer: {{url: '{url}', audiences: [cluster], certificateAuthority: {authority}}}\n  claimMappings: {mappings}\n"
        )
    }
}

/// Extension API servers trust this server's client CAs, also after they change.
#[tokio::test(flavor = "multi_thread")]
async fn publishes_changed_client_authorities() {
    let (first, second) = (Authority::new(), Authority::new());
    let temp = TempDir::new();
    let (file, tokens) = (temp.file("clients.crt", &first.pem), temp.file("tokens", "root,root,1,system:masters\n"));
    let server = Server::start(&["--ephemeral", "--client-ca-file", &file, "--token-auth-file", &tokens]);
    let trusted = trusted(&server);
    let told = async || {
        let mut client = server.connect(&Handshake::new(&*trusted)).await;
        let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        let answer = client.send("GET", map, &[("authorization", "Bearer root")], "").await.unwrap();
        let map: Value = serde_json::from_str(&answer.body).unwrap();
        map["data"]["client-ca-file"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(told().await.trim(), first.pem.trim());
    let (certificate, key) = second.sign("late", &["system:masters"]);
    let late = Handshake::new(&*trusted).identity(&certificate, &key).alpn(&["http/1.1"]);
    let answers = async || {
        let mut client = Client::connect(server.address, &late).await.ok()?;
        client.get("/api/v1/nodes").await.ok().filter(|answer| answer.status == 200)
    };
    assert!(answers().await.is_none());
    std::fs::write(&file, &second.pem).unwrap();
    wait_until("the new authority to count", async || answers().await).await;
    // Clients may still use the previous one.
    let both = format!("{}\n{}", first.pem.trim(), second.pem.trim());
    wait_until("others to be told", async || (told().await.trim() == both).then_some(())).await;
    // To revoke the previous CA, an administrator deletes the map. It is recreated immediately with the current CAs.
    let mut client = server.connect(&Handshake::new(&*trusted)).await;
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let deleted = client.send("DELETE", map, &[("authorization", "Bearer root")], "").await.unwrap();
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    wait_until("the map to be back", async || (told().await.trim() == second.pem.trim()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
async fn kubectl_uses_credentials_of_kubeconfigs() {
    let clients = Authority::new();
    let temp = TempDir::new();
    let server = Server::start(&[
        "--ephemeral",
        "--client-ca-file",
        &temp.file("clients.crt", &clients.pem),
        "--token-auth-file",
        &temp.file("tokens", "secret,holder,1\n"),
    ]);
    let authority =
        server.lines[2].split_whitespace().skip_while(|word| *word != "--certificate-authority").nth(1).unwrap();
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    let (certificate, key) = clients.sign("admin", &["system:masters"]);
    let script = "printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\
                  \"status\":{\"token\":\"secret\"}}'";
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, {}], interactiveMode: Never}}}}",
        serde_json::to_string(script).unwrap()
    );
    let tls = format!("{{client-certificate-data: {}, client-key-data: {}}}", encode(&certificate), encode(&key));
    let kubectl = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
    for (user, name) in [(&tls, "admin"), (&exec, "holder"), (&"{token: secret}".to_owned(), "holder")] {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: '{authority}'}}}}]\n\
             users: [{{name: u, user: {user}}}]\n",
            server.url()
        );
        let file = temp.file("kubeconfig", &text);
        let mut command = std::process::Command::new(&kubectl);
        command.args(["--kubeconfig", &file, "auth", "whoami", "--output=jsonpath={.status.userInfo.username}"]);
        let outcome = command.env("HOME", temp.path()).env_remove("KUBECONFIG").output().unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(String::from_utf8_lossy(&outcome.stdout), name, "{said}");
    }
}
