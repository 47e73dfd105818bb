//! The Helm chart: it is installed in a server of these tests, and its pods' command lines and kubeconfigs are used with
//! the files that a kubelet would mount.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Etcd, Kubectl, Server, TempDir};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};

use crate::documents::{items, path, texts};

const NAMESPACE: &str = "planes";

/// The files of a Secret or ConfigMap.
type Files = BTreeMap<String, String>;

/// The server in which releases are installed.
struct Host {
    server: Server,
    kubectl: Kubectl,
}

impl Host {
    fn start() -> Self {
        // No controller creates service accounts here.
        let server = Server::start(&["--ephemeral", "--disable-admission-plugins=ServiceAccount"]);
        let kubectl = Kubectl::new(&server);
        kubectl.ok(&["create", "namespace", NAMESPACE]);
        kubectl.ok(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"]);
        Self { server, kubectl }
    }

    /// Runs helm for the chart, with an image and these settings.
    fn helm(&self, arguments: &[&str], settings: &[&str]) -> Output {
        let mut command = Command::new("helm");
        command
            .args(arguments)
            .arg(path("charts/binnacle"))
            .args(["--set", "image.repository=registry.example.com/kube-apiserver"]);
        settings.iter().for_each(|setting| {
            command.args(["--set", setting]);
        });
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, self.server.temp().path().join("helm"));
        }
        command.env("KUBECONFIG", self.server.kubeconfig()).output().unwrap()
    }

    /// Installs a release and returns its StatefulSet.
    fn install(&self, release: &str, settings: &[&str]) -> Value {
        let output = self.helm(&["install", release, "--namespace", NAMESPACE], settings);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.kubectl.json(&["get", "statefulset", release, "--namespace", NAMESPACE])
    }

    fn config_map(&self, name: &str) -> Files {
        let map = self.kubectl.json(&["get", "configmap", name, "--namespace", NAMESPACE]);
        serde_json::from_value(map["data"].clone()).unwrap()
    }

    /// Creates a pod of a StatefulSet, as its controller would.
    fn create_pod(&self, set: &Value) {
        let template = &set["spec"]["template"];
        let mut spec = template["spec"].clone();
        for claim in items(&set["spec"]["volumeClaimTemplates"]) {
            let name = claim["metadata"]["name"].as_str().unwrap();
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-pod-0")}});
            spec["volumes"].as_array_mut().unwrap().push(volume);
        }
        let name = format!("{}-0", set["metadata"]["name"].as_str().unwrap());
        let labels = &template["metadata"]["labels"];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec
        });
        self.kubectl.ok_with(&["create", "--namespace", NAMESPACE, "-f", "-"], &pod.to_string());
    }
}

/// A pod on this machine: a folder with the files of its volumes, in place of the root of its containers.
struct Pod {
    root: TempDir,
    spec: Value,
}

impl Pod {
    /// Mounts the volumes, from Secrets and ConfigMaps by name.
    fn mount(set: &Value, sources: &BTreeMap<String, Files>) -> Self {
        let pod = Self { root: TempDir::new(), spec: set["spec"]["template"]["spec"].clone() };
        // A new ext4 file system has this folder.
        fs::create_dir_all(pod.root.path().join("var/lib/binnacle/lost+found")).unwrap();
        for container in pod.containers() {
            for mount in items(&container["volumeMounts"]) {
                let to = PathBuf::from(pod.local(mount["mountPath"].as_str().unwrap(), ""));
                let volume = items(&pod.spec["volumes"]).find(|volume| volume["name"] == mount["name"]);
                let Some(volume) = volume else {
                    assert_eq!(mount["name"], "data", "only the claim is not among the volumes");
                    continue;
                };
                if let Some(secret) = volume["secret"]["secretName"].as_str() {
                    for (name, text) in &sources[secret] {
                        write(&to.join(name), text);
                    }
                }
                for source in items(&volume["projected"]["sources"]) {
                    let source = ["secret", "configMap"].iter().find_map(|kind| source.get(kind)).unwrap();
                    let files = &sources[source["name"].as_str().unwrap()];
                    for item in items(&source["items"]) {
                        let text = &files[item["key"].as_str().unwrap()];
                        write(&to.join(container["name"].as_str().unwrap()).join(item["path"].as_str().unwrap()), text);
                    }
                }
            }
        }
        pod
    }

    fn containers(&self) -> impl Iterator<Item = &Value> {
        items(&self.spec["initContainers"]).chain(items(&self.spec["containers"]))
    }

    fn container(&self, name: &str) -> &Value {
        self.containers().find(|container| container["name"] == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Returns a path of a component's container as one of this machine. Components have different files in
    /// `/etc/kubernetes`.
    fn local(&self, text: &str, component: &str) -> String {
        let root = self.root.path().display();
        let text = text.replace("/var/lib/binnacle", &format!("{root}/var/lib/binnacle"));
        let text = text.replace("/etc/kubernetes", format!("{root}/etc/kubernetes/{component}").trim_end_matches('/'));
        text.replace("/etc/binnacle", &format!("{root}/etc/binnacle"))
    }

    /// Starts the server with the flags of its container, except that it listens on a free port of this machine only.
    fn serve(&self) -> Server {
        let flags = texts(&self.container("kube-apiserver")["args"]);
        let flags = flags.iter().map(|flag| match flag.as_str() {
            "--bind-address=0.0.0.0" => "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=6443" => "--secure-port=0".to_owned(),
            flag => self.local(&flag.replace("$(POD_IP)", "127.0.0.1"), ""),
        });
        let mut flags: Vec<String> = flags.collect();
        flags.push(format!("--hostname-override={}", self.root.path().file_name().unwrap().to_string_lossy()));
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        tokio::task::block_in_place(|| Server::start(&flags))
    }

    /// Sends the server's probes, each on a connection of its own and without credentials, as a kubelet does.
    async fn probe(&self, server: &Server, authority: &str) {
        let container = self.container("kube-apiserver");
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let request = &container[probe]["httpGet"];
            assert_eq!((&request["scheme"], &request["port"]), (&json!("HTTPS"), &json!("https")));
            let mut client = server.connect(&Handshake::new(authority).alpn(&["http/1.1"])).await;
            let answer = client.get(request["path"].as_str().unwrap()).await.unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, "ok"), "{probe}");
        }
    }

    /// Returns the user as whom a component's kubeconfig authenticates.
    fn user(&self, host: &Host, server: &Server, component: &str) -> String {
        let flags = texts(&self.container(component)["args"]);
        let file = flags.iter().find_map(|flag| flag.strip_prefix("--kubeconfig=")).unwrap();
        let text = fs::read_to_string(self.local(file, component)).unwrap();
        let text = self.local(&text, component).replace("127.0.0.1:6443", &server.address.to_string());
        let file = self.root.file(&format!("{component}.kubeconfig"), &text);
        let review =
            host.kubectl.command(&["auth", "whoami", "--output=json", "--kubeconfig", &file]).output().unwrap();
        let review: Value = serde_json::from_slice(&review.stdout).unwrap_or_else(|_| panic!("{review:?}"));
        review["status"]["userInfo"]["username"].as_str().unwrap().to_owned()
    }

    /// Checks that each file that a flag of a component names exists.
    fn assert_files(&self, component: &str) {
        for flag in texts(&self.container(component)["args"]) {
            let (name, value) = flag.split_once('=').unwrap();
            if value.starts_with('/') {
                assert!(Path::new(&self.local(value, component)).exists(), "{component} {name}={value}");
            }
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

async fn post(client: &mut Client, path: &str, body: &Value) -> Value {
    let answer = client.send("POST", path, &[("content-type", "application/json")], body.to_string()).await.unwrap();
    assert_eq!(answer.status, 201, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_helm, has_kubectl)), ignore = "needs helm and kubectl")]
async fn default_release_starts_and_keeps_its_objects() {
    let host = tokio::task::block_in_place(Host::start);
    let lint = host.helm(&["lint", "--strict"], &[]);
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    let set = host.install("plane", &["extraArgs.v=1"]);
    assert_eq!(set["spec"]["replicas"], 1);
    // The namespace refuses pods that do not meet the pod security standard `restricted`.
    host.create_pod(&set);
    let kubeconfigs = "plane-kubeconfigs".to_owned();
    let sources = BTreeMap::from([(kubeconfigs.clone(), host.config_map(&kubeconfigs))]);
    let pod = Pod::mount(&set, &sources);
    let mut server = pod.serve();
    let data = pod.root.path().join("var/lib/binnacle/data");
    pod.probe(&server, &fs::read_to_string(data.join("pki/ca.crt")).unwrap()).await;
    for component in ["kube-controller-manager", "kube-scheduler"] {
        pod.assert_files(component);
        assert_eq!(pod.user(&host, &server, component), "kubernetes-admin", "{component}");
    }
    let map = json!({"metadata": {"name": "kept"}});
    post(&mut server.client().await, "/api/v1/namespaces/default/configmaps", &map).await;
    tokio::task::block_in_place(|| server.restart());
    let mut client = server.client().await;
    assert_eq!(client.get("/api/v1/namespaces/default/configmaps/kept").await.unwrap().status, 200);
}

/// An authority that does what cert-manager does with the chart's Certificates.
fn issue_all(certificates: &Value) -> BTreeMap<String, Files> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let own = Files::from([("tls.crt".into(), authority.clone()), ("tls.key".into(), key.serialize_pem())]);
    let issuer = Issuer::new(params, key);
    let mut secrets = BTreeMap::new();
    for certificate in items(&certificates["items"]) {
        let spec = &certificate["spec"];
        let mut files = own.clone();
        if spec["isCA"] != true {
            let names = [texts(&spec["dnsNames"]), texts(&spec["ipAddresses"])].concat();
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, spec["commonName"].as_str().unwrap());
            for organization in texts(&spec["subject"]["organizations"]) {
                params.distinguished_name.push(DnType::OrganizationName, organization);
            }
            let usages = texts(&spec["usages"]);
            for (usage, purpose) in [
                ("server auth", ExtendedKeyUsagePurpose::ServerAuth),
                ("client auth", ExtendedKeyUsagePurpose::ClientAuth),
            ] {
                if usages.iter().any(|name| name == usage) {
                    params.extended_key_usages.push(purpose);
                }
            }
            let key = KeyPair::generate().unwrap();
            files.insert("tls.crt".into(), params.signed_by(&key, &issuer).unwrap().pem());
            files.insert("tls.key".into(), key.serialize_pem());
        }
        files.insert("ca.crt".into(), authority.clone());
        secrets.insert(spec["secretName"].as_str().unwrap().to_owned(), files);
    }
    secrets
}

/// Defines resources of operators, without their schemas.
fn define(kubectl: &Kubectl, definitions: &[(&str, &str, &str)]) {
    for (group, plural, kind) in definitions {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        kubectl.ok_with(&["create", "-f", "-"], &definition.to_string());
        kubectl.ok(&["wait", "--for=condition=Established", "crd", &format!("{plural}.{group}")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_helm, has_kubectl, has_etcd)), ignore = "needs helm, kubectl and etcd")]
async fn replicas_on_etcd_share_certificates_and_keys() {
    let (host, etcd) = tokio::task::block_in_place(|| (Host::start(), Etcd::single()));
    let issuers = ("cert-manager.io", "issuers", "Issuer");
    let certificates = ("cert-manager.io", "certificates", "Certificate");
    let monitors = ("monitoring.coreos.com", "servicemonitors", "ServiceMonitor");
    define(&host.kubectl, &[issuers, certificates, monitors]);
    let endpoints = format!("etcd.endpoints={{{}}}", etcd.endpoints().join(","));
    let settings = [
        "replicas=2",
        "certificates.mode=cert-manager",
        "serviceAccountKeys.secretName=keys",
        "persistence.enabled=false",
        "podDisruptionBudget.enabled=true",
        "serviceMonitor.enabled=true",
        "controllerManager.podCIDR=10.244.0.0/16",
        &endpoints,
    ];
    let set = host.install("plane", &settings);
    host.create_pod(&set);
    let certificates = host.kubectl.json(&["get", "certificates", "--namespace", NAMESPACE]);
    let mut sources = issue_all(&certificates);
    let key = KeyPair::generate().unwrap();
    let keys = [("sa.key".into(), key.serialize_pem()), ("sa.pub".into(), key.public_key_pem())];
    sources.insert("keys".into(), keys.into());
    sources.insert("plane-kubeconfigs".into(), host.config_map("plane-kubeconfigs"));

    let pods = [Pod::mount(&set, &sources), Pod::mount(&set, &sources)];
    let servers = [pods[0].serve(), pods[1].serve()];
    let authority = &sources["plane-tls"]["ca.crt"];
    for (pod, server) in pods.iter().zip(&servers) {
        pod.probe(server, authority).await;
        for component in ["kube-controller-manager", "kube-scheduler"] {
            pod.assert_files(component);
            assert_eq!(pod.user(&host, server, component), format!("system:{component}"));
        }
    }

    let identity = |secret: &str| {
        let files = &sources[secret];
        Handshake::new(authority).identity(&files["tls.crt"], &files["tls.key"])
    };
    let mut admin = servers[0].connect(&identity("plane-admin")).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&mut admin, accounts, &json!({"metadata": {"name": "robot"}})).await;
    let request = json!({"spec": {"audiences": [], "expirationSeconds": 3600}});
    let token = post(&mut admin, &format!("{accounts}/robot/token"), &request).await;
    let token = format!("Bearer {}", token["status"]["token"].as_str().unwrap());
    // The other server verifies it with the shared key.
    let mut anonymous = servers[1].connect(&Handshake::new(authority)).await;
    let headers = [("content-type", "application/json"), ("authorization", token.as_str())];
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let answer = anonymous.send("POST", path, &headers, review).await.unwrap();
    assert!(answer.body.contains("system:serviceaccount:default:robot"), "{}", answer.body);
    // Prometheus may read metrics, and nothing else.
    let mut prometheus = servers[1].connect(&identity("plane-monitoring")).await;
    assert_eq!(prometheus.get("/metrics").await.unwrap().status, 200);
    assert_eq!(prometheus.get("/api/v1/secrets").await.unwrap().status, 403);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_helm, has_kubectl)), ignore = "needs helm and kubectl")]
async fn refuses_values_that_contradict_each_other() {
    let host = tokio::task::block_in_place(Host::start);
    for (settings, want) in [
        (&["replicas=2"][..], "needs etcd.endpoints"),
        (&["replicas=2", "etcd.endpoints={http://e:2379}"], "needs certificates.mode cert-manager"),
        (
            &["replicas=2", "etcd.endpoints={http://e:2379}", "certificates.mode=cert-manager"],
            "needs serviceAccountKeys.secretName",
        ),
        (&["serviceMonitor.enabled=true"], "needs serviceMonitor.authorization"),
        (&["image.repository="], "set image.repository"),
        (&["certificates.mode=vault"], "/certificates/mode"),
        (&["persistence.size=large"], "/persistence/size"),
        (&["service.port=70000"], "/service/port"),
        (&["extraargs.v=1"], "extraargs"),
        (&["controllerManager.extraArgs.--v=1"], "invalid propertyName '--v'"),
    ] {
        let output = host.helm(&["template", "plane"], settings);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(want), "{settings:?}: {error}");
    }
}

/// Values that are null, false, lists and numbers become the flags that they stand for.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_helm, has_kubectl)), ignore = "needs helm and kubectl")]
async fn renders_extra_arguments_as_flags() {
    let host = tokio::task::block_in_place(Host::start);
    let settings = [
        "extraArgs.external-hostname=null",
        "extraArgs.enable-bootstrap-token-auth=false",
        "extraArgs.max-requests-inflight=4000000",
        "extraArgs.service-account-issuer={https://a.example,https://b.example}",
        "controllerManager.enabled=false",
        "scheduler.enabled=false",
    ];
    let set = host.install("plane", &settings);
    let spec = &set["spec"]["template"]["spec"];
    assert!(spec["initContainers"].is_null(), "alone, the server is no sidecar");
    let flags = texts(&spec["containers"][0]["args"]);
    let want = [
        "--advertise-address=$(POD_IP)",
        "--bind-address=0.0.0.0",
        "--data-dir=/var/lib/binnacle/data",
        "--enable-bootstrap-token-auth=false",
        "--max-requests-inflight=4000000",
        "--secure-port=6443",
        "--service-account-issuer=https://a.example",
        "--service-account-issuer=https://b.example",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--shutdown-delay-duration=0s",
    ];
    assert_eq!(flags, want);
    let pod = Pod::mount(&set, &BTreeMap::new());
    let server = pod.serve();
    let authority = pod.root.path().join("var/lib/binnacle/data/pki/ca.crt");
    pod.probe(&server, &fs::read_to_string(authority).unwrap()).await;
}
