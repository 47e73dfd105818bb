//! Front proxies send user names in headers; clients with another certificate of the same CA must not.

use std::path::Path;
use std::process::Output;

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Authority, Server, TempDir, program, wait_until};
use serde_json::Value;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const HEADERS: [&str; 2] =
    ["--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group"];
const SHARED: &str = "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
                      --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
                      authenticating proxy headers for arbitrary users";

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Returns the output of a server that validates its configuration, or does not start.
fn output(arguments: &[String]) -> Output {
    program().args(["--ephemeral", "--secure-port=0"]).args(HEADERS).args(arguments).output().unwrap()
}

/// Returns the user of a request that claims to be from a front proxy.
async fn user(server: &Server, trusted: &str, (certificate, key): &(std::path::PathBuf, std::path::PathBuf)) -> String {
    let handshake = Handshake::new(trusted).identity(&read(certificate), &read(key));
    let mut client = server.connect(&handshake).await;
    let headers =
        [("content-type", "application/json"), ("x-remote-user", "root"), ("x-remote-group", "system:masters")];
    let body = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
    let answer = client.send("POST", REVIEWS, &headers, body).await.unwrap();
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    body["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn rejects_a_shared_authority_for_clients_and_front_proxies() {
    let (one, other, temp) = (Authority::make(), Authority::make(), TempDir::new());
    // The certificate decides, not the path.
    let copied = temp.file("copy.crt", &read(&one.ca()));
    let both = temp.file("both.crt", &format!("{}{}", read(&other.ca()), read(&one.ca())));
    let clients = format!("--client-ca-file={}", one.ca().display());
    let proxies = |path: &str| format!("--requestheader-client-ca-file={path}");
    for path in [one.ca().display().to_string(), copied, both] {
        let arguments = [clients.clone(), proxies(&path)];
        let started = output(&arguments);
        let told = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && told.contains(SHARED), "{path}: {told}");
        let checked = output(&[&arguments[..], &["--check-config".to_owned()]].concat());
        let told = format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
        assert!(!checked.status.success() && told.contains(SHARED), "{path}: {told}");
        let named = ["--requestheader-allowed-names=front".to_owned(), "--check-config".to_owned()];
        assert!(output(&[&arguments[..], &named].concat()).status.success());
    }
    let apart = [clients, proxies(&other.ca().display().to_string()), "--check-config".to_owned()];
    assert!(output(&apart).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_rejects_a_shared_authority() {
    let [clients, proxies, later] = [(); 3].map(|()| Authority::make());
    let temp = TempDir::new();
    let file = temp.file("proxies.crt", &read(&proxies.ca()));
    let of_clients = format!("--client-ca-file={}", clients.ca().display());
    let of_proxies = format!("--requestheader-client-ca-file={file}");
    let server = Server::start(&[&["--ephemeral", of_clients.as_str(), of_proxies.as_str()][..], &HEADERS].concat());
    let mut words = server.lines[2].split_whitespace().skip_while(|word| *word != "--certificate-authority");
    let trusted = read(Path::new(words.nth(1).unwrap()));
    let (client, proxy) = (clients.issue("jane"), proxies.issue("proxy"));
    assert_eq!(user(&server, &trusted, &client).await, "jane");
    assert_eq!(user(&server, &trusted, &proxy).await, "root");

    std::fs::write(&file, read(&clients.ca())).unwrap();
    wait_until("the change is refused", async || server.log().contains(SHARED).then_some(())).await;
    assert_eq!(user(&server, &trusted, &client).await, "jane");
    assert_eq!(user(&server, &trusted, &proxy).await, "root");

    std::fs::write(&file, read(&later.ca())).unwrap();
    let new = later.issue("proxy");
    wait_until("the corrected file is in force", async || {
        (user(&server, &trusted, &new).await == "root").then_some(())
    })
    .await;
    assert_eq!(user(&server, &trusted, &client).await, "jane");
    assert_ne!(user(&server, &trusted, &proxy).await, "root");
}
