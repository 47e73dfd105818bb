//! Runs the recorded cases in `test_data/recorded` against the program.
//!
//! `BINNACLE_RECORDED=apply/` runs only the cases whose `area/name` contains the text, `BINNACLE_RECORDED_CASES` names
//! another directory of cases.

use std::path::PathBuf;

use binnacle_comparison::{Endpoint, parse, read, replay, run};
use binnacle_recorded::endpoint;
use binnacle_testkit::Server;

/// The token of a member of `system:masters` in the token file.
const TOKEN: &str = "recorded-token";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_cases() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let directory = std::env::var_os("BINNACLE_RECORDED_CASES");
    let directory = directory.map_or_else(|| root.join("test_data/recorded"), PathBuf::from);
    let filter = std::env::var("BINNACLE_RECORDED").unwrap_or_default();
    let areas = read(&directory).unwrap_or_else(|error| panic!("{error}"));

    let files = binnacle_testkit::TempDir::new();
    let tokens = files.join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},admin,admin-uid,\"system:masters\"\n")).unwrap();
    // The recorded server signed with RSA, as its tokens show.
    let key = root.join("crates/access/jwt/testdata/rsa.pem");
    let key = key.to_str().unwrap();
    let arguments = ["--ephemeral", "--token-auth-file", &tokens, "--service-account-key-file", key];
    let server = Server::start(&[&arguments[..], &["--service-account-signing-key-file", key]].concat());
    let endpoint = endpoint(server.address, "localhost", &server.admin().authority, TOKEN).unwrap();
    differences_are_found(&endpoint).await;
    let results = run(&endpoint, areas, &filter).await;
    assert!(results.ran > 0, "no case has {filter:?} in its name");
    let failed = results.failures.len();
    assert!(failed == 0, "{failed} of {} cases fail:\n{}", results.ran, results.failures.join("\n"));
    println!("{} cases pass", results.ran);
}

/// A case with unmet expectations fails with the place of each difference.
async fn differences_are_found(endpoint: &Endpoint) {
    let text = r#"{"area": "a", "cases": [{"name": "n", "about": "x", "steps": [
        {"do": "POST", "path": "/api/v1/namespaces/{{ns}}/configmaps", "compare": "subset",
         "select": ["/metadata/name", "/metadata/namespace", "/metadata/uid"],
         "body": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
         "expect": {"status": 200, "headers": {"Content-Type": "application/json"},
                    "body": {"/metadata/name": "b", "/metadata/namespace": "{{ns}}", "/metadata/uid": "<uid:1>"}}}]}]}"#;
    let area = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let failure = replay(endpoint, &area.cases[0]).await;
    let want = "step 1 (POST /api/v1/namespaces/{{ns}}/configmaps): 2 differences\
                \n    /body/~1metadata~1name\n      expected \"b\"\n      got      \"a\"\
                \n    /status\n      expected 200\n      got      201";
    assert_eq!(failure, Err(want.to_owned()));
}
