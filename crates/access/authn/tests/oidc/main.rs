//! Tokens of a small provider that are valid, forged, expired or for other audiences, and key rotation.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod distributed_claims;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_authn::config::{
    AuthenticationConfig, ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator, PrefixedClaimOrExpression,
};
use binnacle_authn::{IssuerOptions, Issuers, IssuersFile, JwtMetrics, TokenAuthenticator};
use binnacle_config::{ReloadMetrics, WatchedFile};
use binnacle_jwt::{Algorithm, PrivateKey, private_from_pem};
use binnacle_request::{Shutdown, ShutdownTrigger};
use binnacle_testkit::{Hook, TempDir, wait_until};
use http::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

fn key() -> PrivateKey {
    private_from_pem(rcgen::KeyPair::generate().unwrap().serialize_pem().as_bytes()).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

struct Provider {
    hook: Hook,
    issuer: Arc<Mutex<String>>,
    keys: Arc<Mutex<Value>>,
    /// The responses to requests for distributed claims, by path.
    claim_tokens: Arc<Mutex<Value>>,
    /// The requested paths and credentials.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    async fn start(key: &PrivateKey) -> Self {
        let keys = Arc::new(Mutex::new(json!({"keys": [key.public().to_jwk()]})));
        let issuer = Arc::new(Mutex::new(String::new()));
        let (claim_tokens, seen) = (Arc::new(Mutex::new(json!({}))), Arc::<Mutex<Vec<String>>>::default());
        let (served, named, held, asked) = (keys.clone(), issuer.clone(), claim_tokens.clone(), seen.clone());
        let hook = Hook::start(move |request| {
            let issuer = named.lock().clone();
            let body = match request.uri().path() {
                "/.well-known/openid-configuration" => json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}),
                "/keys" => served.lock().clone(),
                // The token of a claim, or a number for a status code.
                path => held.lock()[path].clone(),
            };
            let bearer = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
            asked.lock().push(format!("{} {}", request.uri().path(), bearer.unwrap_or_default()));
            async move {
                let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                let code = body.as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(200);
                Response::builder().status(code).body(text.into_bytes()).unwrap()
            }
        })
        .await;
        *issuer.lock() = hook.url();
        Self { hook, issuer, keys, claim_tokens, seen }
    }

    /// Returns the configuration of the flags.
    fn config(&self) -> JwtAuthenticator {
        let prefixed = |claim: &str, prefix: &str| PrefixedClaimOrExpression {
            claim: claim.to_owned(),
            prefix: Some(prefix.to_owned()),
            ..PrefixedClaimOrExpression::default()
        };
        JwtAuthenticator {
            issuer: Issuer {
                url: self.issuer.lock().clone(),
                audiences: vec!["kubernetes".to_owned()],
                certificate_authority: self.hook.authority.clone(),
                ..Issuer::default()
            },
            claim_mappings: ClaimMappings {
                username: prefixed("email", "o:"),
                groups: prefixed("groups", "g:"),
                ..ClaimMappings::default()
            },
            claim_validation_rules: vec![ClaimValidationRule {
                claim: "hd".to_owned(),
                required_value: "here".to_owned(),
                ..ClaimValidationRule::default()
            }],
            ..JwtAuthenticator::default()
        }
    }

    /// Returns an entry of the configuration file; `rest` follows the issuer.
    fn entry(&self, rest: &str) -> String {
        let authority = serde_json::to_string(&self.hook.authority).unwrap();
        let url = self.issuer.lock().clone();
        format!("- issuer: {{url: '{url}', certificateAuthority: {authority}, {rest}\n")
    }

    fn claims(&self, changes: Value) -> Value {
        let mut claims = json!({
            "iss": *self.issuer.lock(), "aud": "kubernetes", "exp": now() + 100, "email": "me", "hd": "here", "sub": "1",
        });
        for (claim, value) in changes.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        claims
    }
}

/// Issuers that run until the trigger is dropped.
struct RunningIssuers {
    issuers: Arc<Issuers>,
    _trigger: ShutdownTrigger,
}

fn options(algorithms: &[Algorithm]) -> IssuerOptions {
    let metrics = JwtMetrics::register(&binnacle_metrics::Registry::new(), "here").unwrap();
    IssuerOptions {
        algorithms: algorithms.to_vec(),
        audiences: vec!["api".into()],
        disallowed: vec!["https://own.test".to_owned()],
        metrics: Some(metrics),
        egress: None,
    }
}

fn run(config: AuthenticationConfig, algorithms: &[Algorithm], mut file: Option<IssuersFile>) -> RunningIssuers {
    let checked = config.check(&[]).unwrap();
    let issuers = Arc::new(Issuers::new(checked, options(algorithms)).unwrap());
    let (trigger, shutdown): (_, Shutdown) = ShutdownTrigger::new();
    let followed = issuers.clone();
    tokio::spawn(async move { followed.run(&mut file, shutdown).await });
    RunningIssuers { issuers, _trigger: trigger }
}

fn run_one(config: JwtAuthenticator) -> RunningIssuers {
    run(AuthenticationConfig { jwt: vec![config], anonymous: None }, &[Algorithm::Es256], None)
}

/// Authenticates a token, with retries until the provider is discovered.
async fn authenticate(running: &RunningIssuers, token: &str) -> Result<String, String> {
    let mut outcome = authenticate_once(running, token).await;
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while outcome == Err("oidc: authenticator not initialized".to_owned()) && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
        outcome = authenticate_once(running, token).await;
    }
    outcome
}

async fn authenticate_once(running: &RunningIssuers, token: &str) -> Result<String, String> {
    match running.issuers.authenticate_token(token, &[]).await {
        Ok(None) => Ok("nobody".to_owned()),
        Ok(Some(known)) => Ok(format!("{} {}", known.user.name, known.user.groups.join(","))),
        Err(error) => Err(error.0),
    }
}

#[tokio::test]
async fn authenticates_by_claims_and_signature() {
    let (key, stranger) = (key(), key());
    let provider = Provider::start(&key).await;
    let good = key.sign(&provider.claims(json!({}))).unwrap();
    let oidc = run_one(provider.config());
    for (changes, want) in [
        (json!({}), Ok("o:me system:authenticated")),
        (json!({"groups": ["a", "b"]}), Ok("o:me g:a,g:b,system:authenticated")),
        (json!({"groups": "a"}), Ok("o:me g:a,system:authenticated")),
        (
            json!({"groups": [1]}),
            Err("oidc: parse groups claim \"groups\": json: cannot unmarshal array into Go value of type string"),
        ),
        (json!({"aud": ["x", "kubernetes"]}), Ok("o:me system:authenticated")),
        (json!({"aud": "other"}), Err("oidc: verify token: oidc: expected audience \"kubernetes\" got [\"other\"]")),
        (json!({"aud": null}), Err("oidc: verify token: oidc: expected audience \"kubernetes\" got []")),
        (json!({"iss": "https://elsewhere"}), Ok("nobody")),
        (json!({"exp": now() - 1}), Err("oidc: verify token: oidc: token is expired")),
        (json!({"exp": null}), Err("oidc: verify token: oidc: token is expired")),
        (json!({"nbf": now() + 1000}), Err("oidc: verify token: current time before the nbf")),
        (json!({"email_verified": true}), Ok("o:me system:authenticated")),
        (json!({"email_verified": false}), Err("oidc: email not verified")),
        (json!({"email": 7}), Err("oidc: parse username claims \"email\": ")),
        (json!({"email": null}), Err("oidc: parse username claims \"email\": ")),
        (json!({"hd": "there"}), Err("oidc: required claim hd value does not match. Got = there, want = here")),
    ] {
        let token = key.sign(&provider.claims(changes.clone())).unwrap();
        match (authenticate(&oidc, &token).await, want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want, "{changes}"),
            (Err(got), Err(want)) => assert!(got.starts_with(want), "{changes}: {got}"),
            (got, _) => panic!("{changes}: {got:?}"),
        }
    }
    let claims = provider.claims(json!({}));
    let forged = stranger.sign(&claims).unwrap();
    let error = authenticate(&oidc, &forged).await.unwrap_err();
    assert!(error.starts_with("oidc: verify token: failed to verify signature"), "{error}");
    let unsupported = key.sign_by(Algorithm::Es384, &claims).unwrap();
    let error = authenticate(&oidc, &unsupported).await.unwrap_err();
    assert!(error.starts_with("oidc: verify token: oidc: id token signed with unsupported algorithm"), "{error}");
    for text in ["", "a.b.c", &good[..good.len() / 2]] {
        assert_eq!(authenticate(&oidc, text).await, Ok("nobody".to_owned()));
    }
}

/// Keys are not fetched during discovery but for a token. A token that arrives before they can be fetched is rejected
/// and does not delay later ones.
#[tokio::test]
async fn fetches_keys_when_a_token_needs_them() {
    let key = key();
    let provider = Provider::start(&key).await;
    let keys = std::mem::replace(&mut *provider.keys.lock(), json!("not yet"));
    let oidc = run_one(provider.config());
    let token = key.sign(&provider.claims(json!({}))).unwrap();
    let refused = authenticate(&oidc, &token).await.unwrap_err();
    let why = "oidc: verify token: failed to verify signature: fetching keys oidc: failed to decode keys";
    assert!(refused.starts_with(why), "{refused}");
    *provider.keys.lock() = keys;
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let mut outcome = Err(refused);
    while outcome.is_err() && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
        outcome = authenticate_once(&oidc, &token).await;
    }
    assert_eq!(outcome, Ok("o:me system:authenticated".to_owned()));
}

#[tokio::test]
async fn accepts_new_keys_and_rejects_former_ones() {
    let (first, second) = (key(), key());
    let provider = Provider::start(&first).await;
    let oidc = run_one(provider.config());
    let old = first.sign(&provider.claims(json!({}))).unwrap();
    assert_eq!(authenticate(&oidc, &old).await, Ok("o:me system:authenticated".to_owned()));
    let new = second.sign(&provider.claims(json!({}))).unwrap();
    *provider.keys.lock() = json!({"keys": [second.public().to_jwk()]});
    assert_eq!(authenticate(&oidc, &new).await, Ok("o:me system:authenticated".to_owned()));
    // The previous key is no longer accepted.
    assert!(authenticate(&oidc, &old).await.is_err());
}

#[tokio::test]
async fn rejects_provider_that_names_another_issuer() {
    let key = key();
    let provider = Provider::start(&key).await;
    let (config, token) = (provider.config(), key.sign(&provider.claims(json!({}))).unwrap());
    "https://elsewhere".clone_into(&mut provider.issuer.lock());
    let oidc = run_one(config);
    for _ in 0..20 {
        assert_eq!(authenticate_once(&oidc, &token).await, Err("oidc: authenticator not initialized".to_owned()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n";

#[tokio::test]
async fn maps_and_validates_claims_by_expressions() {
    let (first_key, second_key) = (key(), key());
    let (first, second) = (Provider::start(&first_key).await, Provider::start(&second_key).await);
    let text = format!(
        "{HEAD}{}{}{}{}",
        first.entry("audiences: [a, b], audienceMatchPolicy: MatchAny}"),
        "  claimMappings:\n    username: {expression: \"claims.user.name__dot__full + ':' + claims.sub\"}\n    \
         groups: {expression: \"claims.roles.split(',')\"}\n    uid: {claim: sub}\n    \
         extra: [{key: example.org/level, valueExpression: \"string(int(claims.level))\"}]\n  \
         claimValidationRules: [{expression: 'claims.exp - claims.iat <= 86400', message: too long}]\n  \
         userValidationRules: [{expression: \"!user.username.startsWith('system:')\", message: reserved}]\n",
        second.entry("audiences: [b]}"),
        "  claimMappings: {username: {claim: sub, prefix: 's:'}}\n",
    );
    let config = AuthenticationConfig::parse(text.as_bytes()).unwrap();
    let oidc = run(config, &Algorithm::ALL, None);
    let claims = |changes: Value| {
        let mut claims = json!({
            "aud": ["b"], "iat": now() - 10, "user": {"name.full": "me"}, "roles": "x,y,", "level": 3, "sub": "1"
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        first.claims(claims)
    };
    for (changes, want) in [
        (json!({}), Ok("me:1 x,y,system:authenticated")),
        (json!({"aud": "a"}), Ok("me:1 x,y,system:authenticated")),
        (json!({"aud": "c"}), Err("oidc: verify token: oidc: expected audience in [\"a\" \"b\"] got [\"c\"]")),
        (
            json!({"iat": now() - 90_000}),
            Err(
                "oidc: error evaluating claim validation expression: validation expression 'claims.exp - claims.iat <= \
                 86400' failed: too long",
            ),
        ),
        (
            json!({"user": {"name.full": "system"}}),
            Err("oidc: error evaluating user info validation rule: validation expression \
                 '!user.username.startsWith('system:')' failed: reserved"),
        ),
        (
            json!({"user": {}}),
            Err("oidc: error evaluating username claim expression: expression 'claims.user.name__dot__full + ':' + \
                 claims.sub' resulted in error: no such key"),
        ),
        (
            json!({"roles": null}),
            Err(
                "oidc: error evaluating group claim expression: expression 'claims.roles.split(',')' resulted in error: no \
                 such overload",
            ),
        ),
    ] {
        let token = first_key.sign(&claims(changes.clone())).unwrap();
        match (authenticate(&oidc, &token).await, want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want, "{changes}"),
            (Err(got), Err(want)) => assert!(got.starts_with(want), "{changes}: {got}"),
            (got, _) => panic!("{changes}: {got:?}"),
        }
    }
    let token = first_key.sign(&claims(json!({}))).unwrap();
    let known = oidc.issuers.authenticate_token(&token, &["api".into()]).await.unwrap().unwrap();
    assert_eq!((known.user.uid.as_str(), &known.audiences[..]), ("1", &["api".into()][..]));
    assert_eq!(known.user.extra["example.org/level"], ["3"]);
    assert_eq!(oidc.issuers.authenticate_token(&token, &["other".into()]).await, Ok(None));
    // The first issuer does not accept the other issuer's key.
    let forged = second_key.sign(&claims(json!({}))).unwrap();
    assert!(authenticate(&oidc, &forged).await.is_err());
    let other = second_key.sign(&second.claims(json!({"aud": "b"}))).unwrap();
    assert_eq!(authenticate(&oidc, &other).await, Ok("s:1 system:authenticated".to_owned()));
}

#[tokio::test]
async fn reloads_issuers_of_the_file_unless_it_is_invalid() {
    let (first_key, second_key) = (key(), key());
    let (first, second) = (Provider::start(&first_key).await, Provider::start(&second_key).await);
    let mappings = "  claimMappings: {username: {claim: sub, prefix: ''}}\n";
    let entry = |provider: &Provider| format!("{HEAD}{}{mappings}", provider.entry("audiences: [kubernetes]}"));
    let directory = TempDir::new();
    let path = std::path::PathBuf::from(directory.join("config.yaml"));
    let text = entry(&first);
    std::fs::write(&path, &text).unwrap();
    let registry = binnacle_metrics::Registry::new();
    let metrics = ReloadMetrics::of_authentication(&registry, "here").unwrap();
    let file = WatchedFile::new(path.clone(), text.clone().into_bytes());
    let file = IssuersFile { file, metrics, anonymous: None };
    let config = AuthenticationConfig::parse(text.as_bytes()).unwrap();
    let oidc = run(config, &Algorithm::ALL, Some(file));
    let reloads = |status: &str| {
        let found = registry.gather().into_iter().filter(|family| family.name().ends_with("reloads_total"));
        let metrics: Vec<_> = found.flat_map(|family| family.get_metric().to_vec()).collect();
        let of = metrics.iter().filter(|metric| metric.get_label().iter().any(|label| label.value() == status));
        of.map(|metric| metric.get_counter().get_value()).sum::<f64>()
    };
    let one = first_key.sign(&first.claims(json!({}))).unwrap();
    let two = second_key.sign(&second.claims(json!({}))).unwrap();
    assert_eq!(authenticate(&oidc, &one).await, Ok("1 system:authenticated".to_owned()));
    assert_eq!(authenticate(&oidc, &two).await, Ok("nobody".to_owned()));

    let second_url = second.issuer.lock().clone();
    // An invalid file changes nothing: a malformed one, one with anonymous access, one with the server's own issuer.
    for (at, wrong) in [
        "jwt: [".to_owned(),
        format!("{}anonymous: {{enabled: true}}\n", entry(&second)),
        entry(&second).replace(&second_url, "https://own.test"),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(&path, wrong).unwrap();
        wait_until("the file is read", async || (reloads("failure") == (at + 1) as f64).then_some(())).await;
        assert_eq!(authenticate(&oidc, &one).await, Ok("1 system:authenticated".to_owned()));
        assert_eq!(authenticate(&oidc, &two).await, Ok("nobody".to_owned()));
    }
    std::fs::write(&path, entry(&second)).unwrap();
    wait_until("the file is in force", async || (reloads("success") == 1.0).then_some(())).await;
    assert_eq!(authenticate(&oidc, &one).await, Ok("nobody".to_owned()));
    assert_eq!(authenticate(&oidc, &two).await, Ok("1 system:authenticated".to_owned()));
}
