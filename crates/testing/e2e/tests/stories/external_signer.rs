//! Service account tokens that an external process signs. Its keys are added, hidden and removed while tokens are
//! created and used.

use std::path::Path;

use binnacle_testkit::https::Client;
use binnacle_testkit::{Server, SignerKey, TempDir, TokenSigner, program, wait_until};
use serde_json::{Value, json};

use crate::authentication::bearer;

const TOKENS: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const USER: &str =
    "system:serviceaccount:default:default system:serviceaccounts,system:serviceaccounts:default,system:authenticated";

/// Requests a token. Returns the status code, the response, and the warning.
async fn request(client: &mut Client, seconds: i64) -> (u16, Value, Option<String>) {
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}
    });
    let json = [("content-type", "application/json")];
    let answer = client.send("POST", TOKENS, &json, body.to_string()).await.unwrap();
    let warning = answer.headers.get("warning").map(|warning| warning.to_str().unwrap().to_owned());
    (answer.status, serde_json::from_str(&answer.body).unwrap(), warning)
}

async fn token(client: &mut Client) -> String {
    let (status, answer, _) = request(client, 3600).await;
    assert_eq!(status, 201, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// Returns the names of the published keys, and their cache duration.
async fn discovered(client: &mut Client) -> (Vec<String>, u64) {
    let answer = client.get("/openid/v1/jwks").await.unwrap();
    let age = answer.headers["cache-control"].to_str().unwrap().strip_prefix("public, max-age=").unwrap();
    let keys: Value = serde_json::from_str(&answer.body).unwrap();
    let names = keys["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect();
    (names, age.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn issues_and_verifies_tokens_of_an_external_signer() {
    let temp = TempDir::new();
    let socket = temp.join("signer");
    let signer = TokenSigner::start(Path::new(&socket));
    let server = Server::start(&["--ephemeral", "--service-account-signing-endpoint", &socket]);
    let mut client = server.client().await;

    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let made =
        client.send("POST", accounts, &[("content-type", "application/json")], account.to_string()).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.body);

    // The signer limits the lifetime of tokens.
    let (status, answer, warning) = request(&mut client, 100_000).await;
    assert_eq!((status, answer["spec"]["expirationSeconds"].as_i64()), (201, Some(7200)), "{answer}");
    let shortened = "299 - \"requested expiration of 100000 seconds shortened to 7200 seconds\"";
    assert_eq!(warning.as_deref(), Some(shortened));
    let first = token(&mut client).await;
    assert_eq!(bearer(&server, &first).await, (201, USER.to_owned()));
    let (keys, age) = discovered(&mut client).await;
    assert!(keys == ["key-1"] && age > 3000 && age <= 3600, "{keys:?} {age}");

    // Another key signs. The server fetches it after the first token that refers to it. The previous key still
    // verifies, but is hidden.
    signer.change(|state| {
        state.keys[0].hidden = true;
        state.keys.push(SignerKey::new("key-2"));
    });
    let second = token(&mut client).await;
    for token in [&first, &second] {
        assert_eq!(bearer(&server, token).await, (201, USER.to_owned()));
    }
    assert_eq!(discovered(&mut client).await.0, ["key-2"]);

    // A removed key no longer verifies once it leaves the cache.
    signer.change(|state| state.keys = vec![state.keys[1].clone(), SignerKey::new("key-3")]);
    token(&mut client).await;
    wait_until("the key to be gone", async || (bearer(&server, &first).await.0 == 401).then_some(())).await;
    assert_eq!(bearer(&server, &second).await.0, 201);

    // Errors of the signer are reported.
    let failed = |why: &str| format!("Internal error occurred: failed to generate token: {why}");
    for (header, refuses, want) in [
        (None, Some(7), "while signing jwt: rpc error: code = PermissionDenied desc = not today"),
        (Some(r#"{"alg":"ES256","kid":"key-3"}"#), None, "while validating header: bad type"),
        (
            Some(r#"{"alg":"HS256","kid":"key-3","typ":"JWT"}"#),
            None,
            "while validating header: bad signing algorithm \"HS256\"",
        ),
    ] {
        signer.change(|state| (state.header, state.refuses) = (header.map(str::to_owned), refuses));
        let (status, answer, _) = request(&mut client, 3600).await;
        assert_eq!((status, answer["message"].as_str()), (500, Some(failed(want).as_str())), "{answer}");
    }
    // A key that only verifies cannot sign.
    signer.change(|state| {
        (state.header, state.refuses) = (Some(r#"{"alg":"ES256","kid":"key-4","typ":"JWT"}"#.to_owned()), None);
        state.keys.push(SignerKey::new("key-4"));
        state.keys.iter_mut().for_each(|key| key.hidden |= key.id == "key-4");
    });
    let (_, answer, _) = request(&mut client, 3600).await;
    let hidden = "while validating header: key used for signing JWT (kid: key-4) is excluded from OIDC discovery docs";
    assert_eq!(answer["message"].as_str(), Some(failed(hidden).as_str()));

    let metrics = client.get("/metrics").await.unwrap().body;
    for want in [
        "apiserver_externaljwt_fetch_keys_data_timestamp 1.7e+09",
        &format!("apiserver_externaljwt_fetch_keys_request_total{{code=\"OK\"}} {}", signer.fetches()),
        "apiserver_externaljwt_request_duration_seconds_count{code=\"OK\",method=\"/v1.ExternalJWTSigner/Metadata\"} 1",
        "apiserver_externaljwt_request_duration_seconds_count{code=\"PermissionDenied\",method=\"/v1.ExternalJWTSigner/Sign\"} 1",
        "apiserver_externaljwt_sign_request_total{code=\"OK\"} 4",
        "apiserver_externaljwt_sign_request_total{code=\"PermissionDenied\"} 1",
        "apiserver_externaljwt_sign_request_total{code=\"unknown-non-grpc\"} 3",
    ] {
        assert!(metrics.lines().any(|line| line == want), "{want} in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_keys_after_the_refresh_hint() {
    let temp = TempDir::new();
    let socket = temp.join("signer");
    let signer = TokenSigner::start(Path::new(&socket));
    signer.change(|state| state.refresh_hint = 1);
    let server = Server::start(&["--ephemeral", "--service-account-signing-endpoint", &socket]);
    let mut client = server.client().await;
    signer.change(|state| state.keys.push(SignerKey::new("key-2")));
    let mut keys = async || discovered(&mut client).await.0;
    wait_until("the new key", async || (keys().await == ["key-1", "key-2"]).then_some(())).await;
    assert!(signer.fetches() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_unusable_signers() {
    let temp = TempDir::new();
    let socket = temp.join("signer");
    let signer = TokenSigner::start(Path::new(&socket));
    let complaint = |more: &[&str]| {
        let arguments = ["--ephemeral", "--secure-port=0", "--service-account-signing-endpoint", &socket];
        let output = program().args(arguments).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let too_long = complaint(&["--service-account-max-token-expiration=3h"]);
    assert!(
        too_long.contains(
            "\"command failed\" err=\"service-account-max-token-expiration cannot be set longer than the token expiration supported by \
             service-account-signing-endpoint: 3h0m0s > 2h0m0s\"\n"
        ),
        "{too_long}"
    );
    signer.change(|state| state.max_expiration = 599);
    let too_short = complaint(&[]);
    let want = "err=\"max token life supported by external-jwt-signer (599s) is less than acceptable (min 600s)\"\n";
    assert!(too_short.contains(want), "{too_short}");
    signer.change(|state| state.keys.clear());
    let keyless = complaint(&[]);
    let want = "err=\"while setting up external-jwt-signer: while initially filling key cache: while performing initial cache \
                fill: while fetching token verification keys: found no keys\"\n";
    assert!(keyless.contains(want), "{keyless}");
}
