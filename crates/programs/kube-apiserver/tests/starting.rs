//! Starts of the program: first, repeated and failed ones.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use binnacle_testkit::https::Client;
use binnacle_testkit::{Server, TempDir, admin, program, wait_until_blocking};

fn run_failing(arguments: &[&str]) -> Output {
    let output = program().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    output
}

/// Returns the error of a failed start, which is one line: plain if the command line cannot be read, logged otherwise.
fn start_error(arguments: &[&str]) -> String {
    let text = String::from_utf8(run_failing(arguments).stderr).unwrap();
    let line = text.strip_suffix('\n').unwrap_or_else(|| panic!("{text:?}"));
    assert!(!line.contains('\n'), "{text}");
    if let Some(plain) = line.strip_prefix("Error: ") {
        return plain.to_owned();
    }
    let (head, quoted) = line.split_once("] \"command failed\" err=").unwrap_or_else(|| panic!("{text}"));
    assert!(head.starts_with('E') && head.contains(" main.rs:"), "{text}");
    serde_json::from_str(quoted).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn failed_start_prints_reason_and_leaves_no_files() {
    let temp = TempDir::new();
    let data = temp.join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_port = taken.local_addr().unwrap().port().to_string();
    let bad_tokens = temp.file("tokens", "a,b\n");
    let junk = temp.file("junk", "no certificate");
    let good = TempDir::new();
    drop(Server::start(&["--data-dir", &good.join("d")]));
    let [certificate, other_key] = ["apiserver.crt", "admin.key"].map(|name| good.join(&format!("d/pki/{name}")));
    let missing = temp.join("missing");
    let in_use = format!("failed to create listener: failed to listen on 127.0.0.1:{taken_port}: ");
    for (arguments, want) in [
        (&["--nothing"][..], "unknown flag: --nothing"),
        (&["--secure-prot=1"], "unknown flag: --secure-prot (did you mean --secure-port?)"),
        (&["serve"], "\"kube-apiserver\" does not take any arguments, got [\"serve\"]"),
        (&["--secure-port=x"], "invalid argument \"x\" for \"--secure-port\" flag: "),
        (
            &["--service-account-signing-endpoint=@a..b", "--service-account-key-file=k"],
            "[can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with \
             `--service-account-signing-endpoint` (They are mutually exclusive), invalid value \"@a..b\" passed for \
             `--service-account-signing-endpoint`, when prefixed with @ must be a valid abstract socket name]",
        ),
        (
            &["--service-account-signing-endpoint=@a", "--service-account-signing-key-file=k"],
            "service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set at \
             the same time",
        ),
        (&["--authorization-mode=ABAC"], "authorization-mode ABAC's authorization policy file not passed"),
        (
            &["--authorization-mode=ABAC", "--authorization-policy-file", &junk],
            &format!("invalid authorization config: error reading policy file {junk}, line 1: no certificate: "),
        ),
        (
            &["--egress-selector-config-file", &missing],
            &format!(
                "failed to read egress selector config: unable to read egress selector configuration from \"{missing}\" [open "
            ),
        ),
        (
            &["--tracing-config-file", &missing],
            &format!("failed to read tracing config: unable to read tracing configuration from \"{missing}\": open "),
        ),
        (&["--authorization-config", &missing], &format!("open {missing}: no such file")),
        (&["--authorization-config", &junk], "failed to load AuthorizationConfiguration from file: "),
        (
            &["--authorization-mode=Webhook", "--authorization-webhook-config-file", &missing],
            &format!("invalid authorization config: stat {missing}: no such file or directory"),
        ),
        (&["--secure-port", &taken_port], &in_use),
        (&["--token-auth-file", &missing], &format!("open {missing}: no such file")),
        (&["--token-auth-file", &bad_tokens], &format!("token file '{bad_tokens}' must have at least 3 columns ")),
        (&["--client-ca-file", &missing], &format!("open {missing}: no such file or directory")),
        (
            &["--client-ca-file", &junk],
            &format!(
                "error loading CA bundle for \"client-ca-bundle::{junk}\": data does not contain any valid RSA or ECDSA \
                 certificates"
            ),
        ),
        (
            &["--tls-cert-file", &missing, "--tls-private-key-file", &missing],
            &format!("open {missing}: no such file or directory"),
        ),
        (
            &["--tls-cert-file", &junk, "--tls-private-key-file", &junk],
            "tls: failed to find any PEM data in certificate input",
        ),
        (
            &["--tls-cert-file", &certificate, "--tls-private-key-file", &other_key],
            "tls: private key does not match public key",
        ),
    ] {
        let mut all = vec!["--data-dir", &data];
        if !arguments.contains(&"--secure-port") {
            all.push("--secure-port=0");
        }
        all.extend(arguments);
        let start_error = start_error(&all);
        assert!(start_error.starts_with(want), "{start_error}\nwanted: {want}");
        assert!(!Path::new(&data).exists(), "{arguments:?} left a data directory behind");
    }
    let port = start_error(&["--data-dir", &data, "--secure-port", &taken_port]);
    assert!(port.ends_with("; use --secure-port=0 for a free port, or stop the process that uses this one"), "{port}");
    let file = temp.file("file", "");
    let start_error = start_error(&["--secure-port=0", "--data-dir", &file]);
    assert!(start_error.starts_with(&format!("cannot use the data directory {file}: ")), "{start_error}");
}

#[tokio::test]
async fn greeting_names_url_data_and_kubeconfig() {
    let temp = TempDir::new();
    let data = temp.join("data");
    let server = Server::start(&["--data-dir", &data]);
    let url = format!("https://{}", server.address);
    assert_eq!(
        server.lines,
        [
            format!("Binnacle {} (Kubernetes API v1.36.2) at {url}", env!("CARGO_PKG_VERSION")),
            format!("Data: {data}"),
            format!("Try: kubectl --kubeconfig {data}/admin.kubeconfig get namespaces"),
        ]
    );
    let path = format!("{data}/admin.kubeconfig");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let kubeconfig = fs::read_to_string(&path).unwrap();
    assert!(kubeconfig.contains(&format!("    server: {url}\n")), "{kubeconfig}");
    for secret in ["pki", "store"] {
        assert_eq!(fs::metadata(format!("{data}/{secret}")).unwrap().permissions().mode() & 0o077, 0);
    }
}

#[tokio::test]
async fn certificates_survive_restart() {
    let temp = TempDir::new();
    let data = temp.join("data");
    let contents = || {
        let mut files: Vec<_> = fs::read_dir(format!("{data}/pki"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let mut before = None;
    for _ in 0..2 {
        let mut server = Server::start(&["--data-dir", &data]);
        println!("ready after {:?}", server.took);
        let mut client = server.connect(&admin(data.as_ref())).await;
        assert_eq!(client.get("/metrics").await.unwrap().status, 200);
        server.terminate();
        let now = contents();
        assert_eq!(before.get_or_insert_with(contents), &now);
    }
}

#[test]
fn rejects_data_directory_in_use() {
    let temp = TempDir::new();
    let data = temp.join("data");
    let _first = Server::start(&["--data-dir", &data]);
    let start_error = start_error(&["--secure-port=0", "--data-dir", &data]);
    assert!(
        start_error.starts_with(&format!("the data directory {data}/store is in use by the process with pid ")),
        "{start_error}"
    );
    assert!(start_error.ends_with("; stop that process, or use another --data-dir"), "{start_error}");
    assert!(Path::new(&data).exists());
}

#[tokio::test]
async fn ephemeral_server_leaves_no_files() {
    let temp = TempDir::new();
    let mut command = program();
    command.env("HOME", temp.path()).env("TMPDIR", temp.path());
    let mut child =
        command.args(["--ephemeral", "--secure-port=0"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut line = || lines.next().unwrap().unwrap();
    let (_, data, kubectl, controllers) = (line(), line(), line(), line());
    assert_eq!(data, "Data: in memory, lost when the server stops");
    let path = kubectl.split_whitespace().nth(3).unwrap().to_owned();
    assert!(Path::new(&path).starts_with(temp.path()) && Path::new(&path).exists(), "{path}");
    let key = path.replace("admin.kubeconfig", "pki/sa.key");
    let command = format!("kube-controller-manager --kubeconfig {path} --service-account-private-key-file {key} ");
    assert!(
        controllers.starts_with("This is the API server only. To turn Deployments into Pods, run: "),
        "{controllers}"
    );
    assert!(controllers.contains(&command) && Path::new(&key).exists(), "{controllers}");
    std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn uses_certificates_of_the_operator() {
    let other = TempDir::new();
    drop(Server::start(&["--data-dir", &other.join("d")]));
    let file = |name: &str| other.join(&format!("d/pki/{name}"));
    let temp = TempDir::new();
    let data = temp.join("data");
    let server = Server::start(&[
        "--data-dir",
        &data,
        "--tls-cert-file",
        &file("apiserver.crt"),
        "--tls-private-key-file",
        &file("apiserver.key"),
        "--client-ca-file",
        &file("ca.crt"),
    ]);
    assert!(!Path::new(&data).join("admin.kubeconfig").exists());
    assert!(server.lines[2].contains("--certificate-authority"), "{}", server.lines[2]);
    // The other server's administrator is one here, and ours is not.
    let theirs = admin(other.path().join("d").as_ref());
    assert_eq!(server.connect(&theirs).await.get("/metrics").await.unwrap().status, 200);
    let mut ours = admin(data.as_ref());
    ours.authority = theirs.authority.clone();
    let answer = Client::connect(server.address, &ours).await.unwrap().get("/metrics").await.unwrap();
    assert!(matches!(answer.status, 401 | 403), "{}", answer.status);
}

/// The greeting comes once etcd answers; until then, the log reports the wait.
#[test]
fn start_waits_for_etcd() {
    let temp = TempDir::new();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let log = temp.join("log");
    let mut command = program();
    command.args(["--secure-port=0", "--data-dir", &temp.join("data"), &format!("--etcd-servers=http://{unused}")]);
    command.stdout(std::process::Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let want = format!("waiting for etcd at http://{unused}");
    wait_until_blocking("the report", || fs::read_to_string(&log).unwrap().contains(&want).then_some(()));
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains("migration") && !text.contains("range="), "{text}");
    std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(child.wait().unwrap().success());
    let mut greeting = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut greeting).unwrap();
    assert_eq!(greeting, "");
}
