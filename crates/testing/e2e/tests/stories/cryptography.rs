//! The cryptography provider of the server: it says which one it has.

use binnacle_testkit::{Cryptography, Server};

#[tokio::test(flavor = "multi_thread")]
async fn metric_names_the_cryptography_provider() {
    let server = tokio::task::block_in_place(|| Server::start(&["--ephemeral"]));
    let metrics = server.client().await.get("/metrics").await.unwrap().body;
    let line = metrics.lines().find(|line| line.starts_with("binnacle_crypto_provider_info{")).unwrap();
    let (provider, is_fips) = match Cryptography::under_test() {
        Cryptography::Ring => ("ring", false),
        Cryptography::AwsLc => ("aws-lc-rs", false),
        Cryptography::Fips => ("aws-lc-rs", true),
    };
    assert!(line.contains(&format!("provider=\"{provider}\"")), "{line}");
    assert_eq!(!line.contains("fips=\"\""), is_fips, "{line}");
}
