//! The two programs as controller-runtime's envtest starts, probes and stops them: with its flags, health checks, order
//! and certificates, and with a definition and a webhook installed as envtest installs them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};

use base64::prelude::{BASE64_STANDARD, Engine};
use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Hook, TempDir, etcd_stand_in, program, wait_until, wait_until_blocking};
use http::Response;
use http_body_util::BodyExt;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};

/// A process that is killed on drop.
struct KilledOnDrop(Child);

impl KilledOnDrop {
    fn start(command: &mut Command, log: &str) -> Self {
        let log = std::fs::File::create(log).unwrap();
        Self(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
    }

    /// Sends SIGTERM, and waits for the end.
    fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        wait_until_blocking("the end of a program", || self.0.try_wait().unwrap());
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An authority as envtest makes it: its certificate as PEM, and its signing key.
struct TinyCa {
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl TinyCa {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec!["envtest-environment".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "envtest-environment");
        params.distinguished_name.push(DnType::OrganizationName, "envtest");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key) }
    }

    fn issue(&self, name: &str, group: &str, names: &[&str], usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Returns a port that was free a moment ago, as envtest does.
fn suggest() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns true if a line of the help starts with a flag: envtest passes some flags only then.
fn has_flag(mut command: Command, flag: &str) -> bool {
    let output = command.arg("--help").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    help.lines().any(|line| line.trim_start().split([' ', '=']).next() == Some(flag))
}

fn is_healthy(port: u16) -> Option<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept-Encoding: gzip\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200 ").then_some(())
}

/// The two running programs.
struct ControlPlane {
    server: KilledOnDrop,
    etcd: KilledOnDrop,
    address: SocketAddr,
    admin: Handshake,
    temp: TempDir,
}

impl ControlPlane {
    async fn start() -> Self {
        let temp = TempDir::new();
        assert!(has_flag(etcd_stand_in(), "--unsafe-no-fsync"));
        assert!(!has_flag(program(), "--insecure-port"), "envtest would give a flag that is gone");
        let (clients, peers) = (suggest(), suggest());
        let url = format!("http://127.0.0.1:{clients}");
        let mut command = etcd_stand_in();
        command.arg(format!("--advertise-client-urls={url}")).arg(format!("--data-dir={}", temp.join("etcd")));
        command.arg(format!("--listen-client-urls={url}")).arg(format!("--listen-peer-urls=http://127.0.0.1:{peers}"));
        let etcd = KilledOnDrop::start(command.arg("--unsafe-no-fsync=true"), &temp.join("etcd.log"));
        wait_until_blocking("etcd's health", || is_healthy(clients));

        std::fs::create_dir(temp.join("certs")).unwrap();
        let certs = temp.join("certs");
        let write = |name: &str, text: &str| std::fs::write(Path::new(&certs).join(name), text).unwrap();
        let (serving, service_accounts, users) = (TinyCa::new(), TinyCa::new(), TinyCa::new());
        let names = ["localhost", "127.0.0.1"];
        let (certificate, key) = serving.issue("localhost", "envtest", &names, ExtendedKeyUsagePurpose::ServerAuth);
        write("apiserver.crt", &certificate);
        write("apiserver.key", &key);
        write("sa-signer.crt", &service_accounts.certificate);
        write("sa-signer.key", &service_accounts.key);
        write("client-cert-auth-ca.crt", &users.certificate);
        let port = suggest();
        let mut command = program();
        command.args(["--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1"]);
        command.arg(format!("--cert-dir={certs}")).arg(format!("--client-ca-file={certs}/client-cert-auth-ca.crt"));
        command.args(["--disable-admission-plugins=ServiceAccount", &format!("--etcd-servers={url}")]);
        command.arg(format!("--secure-port={port}"));
        command.arg(format!("--service-account-issuer=https://127.0.0.1:{port}/"));
        command.arg(format!("--service-account-key-file={certs}/sa-signer.crt"));
        command.arg(format!("--service-account-signing-key-file={certs}/sa-signer.key"));
        let server =
            KilledOnDrop::start(command.arg("--service-cluster-ip-range=10.0.0.0/24"), &temp.join("server.log"));

        let (certificate, key) = users.issue("admin", "system:masters", &[], ExtendedKeyUsagePurpose::ClientAuth);
        let admin = Handshake::new(serving.certificate.clone()).identity(&certificate, &key);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let this = Self { server, etcd, address, admin, temp };
        // An anonymous request.
        let anonymous = Handshake::new(serving.certificate);
        wait_until("/healthz", async || {
            let mut client = Client::connect(this.address, &anonymous).await.ok()?;
            (client.get("/healthz").await.ok()?.status == 200).then_some(())
        })
        .await;
        wait_until("the namespace default", async || {
            (this.send("GET", "/api/v1/namespaces/default", &Value::Null).await.0 == 200).then_some(())
        })
        .await;
        this
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let mut client = Client::connect(self.address, &self.admin).await.unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = client.send(method, path, &[("content-type", "application/json")], body).await.unwrap();
        (answer.status, answer.body)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_installs_and_stops() {
    let plane = ControlPlane::start().await;

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.bar.example.com"},
        "spec": {
            "group": "bar.example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let (status, body) =
        plane.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(status, 201, "{body}");
    // envtest waits for definitions by the discovery of their version.
    wait_until("the resource of a definition", async || {
        let (_, body) = plane.send("GET", "/apis/bar.example.com/v1", &Value::Null).await;
        body.contains(r#""name":"foos""#).then_some(())
    })
    .await;
    let foo = json!({"apiVersion": "bar.example.com/v1", "kind": "Foo", "metadata": {"name": "one"}});
    let (status, body) = plane.send("POST", "/apis/bar.example.com/v1/namespaces/default/foos", &foo).await;
    assert_eq!(status, 201, "{body}");

    let hook = Hook::start(|request| async move {
        // Go's router redirects all other ways to write it.
        if request.uri().path() != "/failing" {
            return Response::builder().status(301).body(Vec::new()).unwrap();
        }
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        // The answer of controller-runtime for a denied request.
        let status = json!({"message": "Always denied", "reason": "Forbidden", "code": 403});
        let denied = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": false, "status": status},
        });
        Response::new(denied.to_string().into_bytes())
    })
    .await;
    // As in envtest, the bundle is the webhook's own certificate and no authority, and the path starts with two
    // slashes.
    let itself = Client::connect(hook.address, &Handshake::new(hook.authority.clone())).await.unwrap().certificate;
    let bundle =
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64_STANDARD.encode(itself));
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating-webhook-configuration"},
        "webhooks": [{
            "name": "validation.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "clientConfig": {"url": format!("{}//failing", hook.url()), "caBundle": BASE64_STANDARD.encode(bundle)},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
            }],
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let (status, body) = plane.send("POST", path, &configuration).await;
    assert_eq!(status, 201, "{body}");
    let map = json!({"metadata": {"generateName": "tried-"}});
    let (status, body) = wait_until("the webhook", async || {
        let (status, body) = plane.send("POST", "/api/v1/namespaces/default/configmaps", &map).await;
        (status != 201).then_some((status, body))
    })
    .await;
    assert!(status == 403 && body.contains("Always denied"), "{status} {body}");

    let mut watching = Client::connect(plane.address, &plane.admin).await.unwrap();
    let mut watch = watching.open("GET", "/api/v1/namespaces?watch=true", &[], "").await.unwrap().into_body();
    assert!(watch.frame().await.unwrap().is_ok());
    let ControlPlane { server, etcd, temp, .. } = plane;
    tokio::task::block_in_place(|| {
        server.stop();
        etcd.stop();
    });
    assert!(!Path::new(&temp.join("etcd")).exists(), "the stand-in keeps nothing");
}
