//! Groups that are a distributed claim of another provider.

use binnacle_jwt::PrivateKey;
use serde_json::{Value, json};

use crate::{Provider, RunningIssuers, authenticate, key, now, run_one};

/// Two providers. The tokens of the first one have their groups as a distributed claim of the second one.
struct DistributedClaims {
    first_key: PrivateKey,
    first: Provider,
    second: Provider,
    oidc: RunningIssuers,
    /// The URL of the second provider.
    url: String,
    /// The time at which the claims at `/old` expired.
    expiry: u64,
}

const EXPAND: &str = "oidc: could not expand distributed claims: ";

impl DistributedClaims {
    async fn start() -> Self {
        let (first_key, second_key, stranger) = (key(), key(), key());
        let (first, second) = (Provider::start(&first_key).await, Provider::start(&second_key).await);
        let mut config = first.config();
        // Claim sources have the same authorities.
        config.issuer.certificate_authority.push_str(&second.hook.authority);
        let oidc = run_one(config);
        let held = |changes: Value| second_key.sign(&second.claims(changes)).unwrap();
        let expiry = now() - 1;
        *second.claim_tokens.lock() = json!({
            "/good": held(json!({"groups": ["a"]})),
            "/one": held(json!({"groups": "b"})),
            "/number": held(json!({"groups": 7})),
            "/others": held(json!({"groups": ["a"], "aud": "other"})),
            "/old": held(json!({"groups": ["a"], "exp": expiry})),
            "/nothing": held(json!({})),
            "/forged": stranger.sign(&second.claims(json!({"groups": ["a"]}))).unwrap(),
            "/nobodys": held(json!({"groups": ["a"], "iss": null})),
            "/elsewhere": held(json!({"groups": ["a"], "iss": "https://127.0.0.1:1"})),
            "/first": second_key.sign(&first.claims(json!({"groups": ["a"]}))).unwrap(),
            "/text": "no token",
            "/huge": "x".repeat(2 << 20),
            "/gone": 404,
            "/broken": 500,
        });
        let url = second.issuer.lock().clone();
        Self { first_key, first, second, oidc, url, expiry }
    }

    /// Returns claims whose groups are at a path of the second provider.
    fn at(&self, path: &str) -> Value {
        let url = &self.url;
        json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": format!("{url}{path}")}}})
    }

    /// Authenticates by tokens with additional claims. Errors begin with the wanted text.
    async fn check(&self, cases: impl IntoIterator<Item = (Value, Result<String, String>)>) {
        for (changes, want) in cases {
            let token = self.first_key.sign(&self.first.claims(changes.clone())).unwrap();
            match (authenticate(&self.oidc, &token).await, want) {
                (Err(got), Err(want)) => assert!(got.starts_with(&want), "{changes}: {got}"),
                (got, want) => assert_eq!(got, want, "{changes}"),
            }
        }
    }

    async fn resolves_groups(&self) {
        let url = &self.url;
        self.check([
            (self.at("/good"), Ok("o:me g:a,system:authenticated".to_owned())),
            (self.at("/one"), Ok("o:me g:b,system:authenticated".to_owned())),
            (
                json!({
                    "_claim_names": {"groups": "s"},
                    "_claim_sources": {"s": {"endpoint": format!("{url}/good"), "access_token": "secret"}}
                }),
                Ok("o:me g:a,system:authenticated".to_owned()),
            ),
        ])
        .await;
    }

    async fn prefers_claims_of_the_token_and_ignores_others(&self) {
        let url = &self.url;
        let nobody = || Ok("o:me system:authenticated".to_owned());
        self.check([
            // A claim in the token takes precedence, and sources for other claims are ignored.
            (
                json!({"groups": ["own"], "_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": format!("{url}/gone")}}}),
                Ok("o:me g:own,system:authenticated".to_owned()),
            ),
            (
                json!({"_claim_names": {"roles": "s"}, "_claim_sources": {"s": {"endpoint": format!("{url}/gone")}}}),
                nobody(),
            ),
            (json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"JWT": "e30.e30.e30"}}}), nobody()),
            (json!({"_claim_names": {}, "_claim_sources": {}}), nobody()),
        ])
        .await;
    }

    async fn rejects_invalid_sources(&self) {
        self.check([
            (json!({"_claim_names": {}}), Err(format!("{EXPAND}oidc: no claim sources"))),
            (
                json!({"_claim_names": {"groups": "s"}, "_claim_sources": {}}),
                Err("oidc: verify token: oidc: source does not exist".to_owned()),
            ),
            (
                json!({"_claim_names": {"groups": ""}, "_claim_sources": {}}),
                Err("oidc: verify token: oidc: failed to obtain source from claim name".to_owned()),
            ),
            (
                json!({"_claim_names": "groups"}),
                Err("oidc: verify token: oidc: failed to unmarshal claims: _claim_names is no object".to_owned()),
            ),
            (
                json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": 7}}}),
                Err(format!("{EXPAND}oidc: could not parse claim sources: endpoint is no string")),
            ),
        ])
        .await;
    }

    async fn rejects_invalid_claim_tokens(&self) {
        let url = &self.url;
        self.check([
            (
                self.at("/number"),
                Err("oidc: parse groups claim \"groups\": json: cannot unmarshal number into Go value of type string"
                    .to_owned()),
            ),
            (
                self.at("/others"),
                Err(format!(
                    "{EXPAND}verify distributed claim token: oidc: expected audience \"kubernetes\" got [\"other\"]"
                )),
            ),
            (
                self.at("/old"),
                Err(format!(
                    "{EXPAND}verify distributed claim token: oidc: token is expired (Token Expiry: {})",
                    self.expiry
                )),
            ),
            (
                self.at("/nothing"),
                Err(format!(
                    "{EXPAND}jwt returned by distributed claim endpoint \"{url}/nothing\" did not contain claim: groups"
                )),
            ),
            (self.at("/forged"), Err(format!("{EXPAND}verify distributed claim token: failed to verify signature: "))),
            (
                self.at("/nobodys"),
                Err(format!("{EXPAND}verifying untrusted issuer  failed: verifier not initialized for issuer: \"\"")),
            ),
            (
                self.at("/elsewhere"),
                Err(format!(
                    "{EXPAND}verifying untrusted issuer https://127.0.0.1:1 failed: verifier not initialized for issuer: \
                     \"https://127.0.0.1:1\""
                )),
            ),
            // Signed by the second provider, with the first one as issuer.
            (self.at("/first"), Err(format!("{EXPAND}verify distributed claim token: failed to verify signature: "))),
            (
                self.at("/text"),
                Err(format!(
                    "{EXPAND}getting untrusted issuer from endpoint {url}/text failed for claim \"groups\": malformed token"
                )),
            ),
        ])
        .await;
    }

    async fn reports_failed_requests(&self) {
        let getting = |why: &str| Err(format!("{EXPAND}while getting distributed claim \"groups\": {why}"));
        self.check([
            (self.at("/huge"), getting("the answer is longer than 1048576 bytes")),
            (self.at("/gone"), getting("error while getting distributed claim JWT: 404 Not Found")),
            (self.at("/broken"), getting("error while getting distributed claim JWT: 500 Internal Server Error")),
        ])
        .await;
    }

    fn sends_credentials_only_to_their_endpoint(&self) {
        let seen = self.second.seen.lock().clone();
        assert_eq!(seen.iter().filter(|line| *line == "/good Bearer secret").count(), 1, "{seen:?}");
        // The credential is not sent to other endpoints.
        assert_eq!(seen.iter().filter(|line| line.ends_with("Bearer secret")).count(), 1, "{seen:?}");
    }

    fn fetches_keys_rarely(&self) {
        let seen = self.second.seen.lock().clone();
        // The provider's keys were fetched once, and again for the signature that no key verified.
        assert!(seen.iter().filter(|line| line.starts_with("/keys")).count() <= 3, "{seen:?}");
    }
}

#[tokio::test]
async fn resolves_distributed_claims() {
    let claims = DistributedClaims::start().await;
    claims.resolves_groups().await;
    claims.prefers_claims_of_the_token_and_ignores_others().await;
    claims.rejects_invalid_sources().await;
    claims.rejects_invalid_claim_tokens().await;
    claims.reports_failed_requests().await;
    claims.sends_credentials_only_to_their_endpoint();
    claims.fetches_keys_rarely();
}

/// The number of claim issuers is limited, since they are taken from the responses of sources.
#[tokio::test]
async fn bounds_issuers_of_distributed_claims() {
    let (first_key, second_key) = (key(), key());
    let (first, second) = (Provider::start(&first_key).await, Provider::start(&second_key).await);
    let mut config = first.config();
    config.issuer.certificate_authority.push_str(&second.hook.authority);
    let oidc = run_one(config);
    let url = second.issuer.lock().clone();
    let token = first.claims(json!({
        "_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": format!("{url}/c")}}
    }));
    let token = first_key.sign(&token).unwrap();
    for port in 1..100 {
        let held = json!({"groups": ["a"], "iss": format!("https://127.0.0.1:1/{port}")});
        *second.claim_tokens.lock() = json!({"/c": second_key.sign(&second.claims(held)).unwrap()});
        let error = authenticate(&oidc, &token).await.unwrap_err();
        assert!(error.contains("verifier not initialized for issuer"), "{error}");
    }
    // Issuers whose provider was not found are evicted.
    *second.claim_tokens.lock() = json!({"/c": second_key.sign(&second.claims(json!({"groups": ["a"]}))).unwrap()});
    assert_eq!(authenticate(&oidc, &token).await, Ok("o:me g:a,system:authenticated".to_owned()));
}
