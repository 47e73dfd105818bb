//! The static pod of kubeadm with the image of Binnacle (`packaging/kubeadm`): the server starts with its flags and
//! answers its probes.

use std::fs;
use std::path::Path;

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Authority, Etcd, EtcdTls, Kubectl, Server, TempDir, wait_until};
use rcgen::KeyPair;
use serde_json::Value;

use crate::documents::{items, path, read, texts};

const POD: &str = "packaging/kubeadm/kube-apiserver.yaml";
const PATCH: &str = "packaging/kubeadm/patches/kube-apiserver+strategic.yaml";

/// Writes the files of kubeadm's folder `pki`, except those of the server for etcd.
fn write_pki(folder: &Path, cluster: &Authority, front_proxies: &Authority) {
    fs::create_dir_all(folder.join("etcd")).unwrap();
    fs::copy(cluster.ca(), folder.join("ca.crt")).unwrap();
    fs::copy(front_proxies.ca(), folder.join("front-proxy-ca.crt")).unwrap();
    for (authority, name) in
        [(cluster, "apiserver"), (cluster, "apiserver-kubelet-client"), (front_proxies, "front-proxy-client")]
    {
        copy_pair(authority, name, folder);
    }
    let key = KeyPair::generate().unwrap();
    fs::write(folder.join("sa.key"), key.serialize_pem()).unwrap();
    fs::write(folder.join("sa.pub"), key.public_key_pem()).unwrap();
}

/// Issues a certificate and writes it and its key.
fn copy_pair(authority: &Authority, name: &str, folder: &Path) {
    let (certificate, key) = authority.issue(name);
    fs::copy(certificate, folder.join(format!("{name}.crt"))).unwrap();
    fs::copy(key, folder.join(format!("{name}.key"))).unwrap();
}

/// Returns the host's path of a file in the container.
fn host_path(pod: &Value, file: &str) -> Option<String> {
    let mount = items(&pod["spec"]["containers"][0]["volumeMounts"])
        .find(|mount| file.starts_with(mount["mountPath"].as_str().unwrap()))?;
    let volume = items(&pod["spec"]["volumes"]).find(|volume| volume["name"] == mount["name"])?;
    let host = volume["hostPath"]["path"].as_str()?;
    Some(file.replacen(mount["mountPath"].as_str()?, host, 1))
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn server_starts_with_the_flags_of_the_static_pod() {
    let pod = read(POD);
    let temp = TempDir::new();
    let pki = temp.path().join("etc/kubernetes/pki");
    let (cluster, front_proxies, of_etcd) = (Authority::make(), Authority::make(), Authority::make());
    write_pki(&pki, &cluster, &front_proxies);
    fs::copy(of_etcd.ca(), pki.join("etcd/ca.crt")).unwrap();
    copy_pair(&of_etcd, "apiserver-etcd-client", &pki);
    let (certificate, key) = of_etcd.issue("etcd");
    let etcd = tokio::task::block_in_place(|| {
        Etcd::secure(&EtcdTls { ca: &of_etcd.ca(), certificate: &certificate, key: &key })
    });

    let container = &pod["spec"]["containers"][0];
    let command = texts(&container["command"]);
    assert_eq!(command[0], "kube-apiserver");
    let mut flags: Vec<String> = command[1..]
        .iter()
        .map(|flag| match flag.split_once('=').unwrap() {
            ("--advertise-address", _) => "--advertise-address=127.0.0.1".to_owned(),
            ("--secure-port", _) => "--secure-port=0".to_owned(),
            ("--etcd-servers", _) => etcd.servers(),
            (name, file) if file.starts_with('/') => {
                let file = host_path(&pod, file).unwrap_or_else(|| panic!("no volume has {file}"));
                format!("{name}={}", temp.join(file.trim_start_matches('/')))
            }
            _ => flag.clone(),
        })
        .collect();
    // Defaults that kubeadm sets by no flag: the data directory of root in the container, and all addresses of the machine.
    assert_eq!(host_path(&pod, "/var/lib/binnacle").as_deref(), Some("/var/lib/binnacle"));
    flags.extend([format!("--data-dir={}", temp.join("data")), "--bind-address=127.0.0.1".to_owned()]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = tokio::task::block_in_place(|| Server::start(&flags));

    let authority = fs::read_to_string(cluster.ca()).unwrap();
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let request = &container[probe]["httpGet"];
        assert_eq!((request["scheme"].as_str(), request["port"].as_str()), (Some("HTTPS"), Some("probe-port")));
        let path = request["path"].as_str().unwrap();
        let answer = wait_until(probe, async || {
            let mut client = server.connect(&Handshake::new(authority.clone()).alpn(&["http/1.1"])).await;
            Some(client.get(path).await.unwrap()).filter(|answer| answer.status == 200)
        });
        assert_eq!(answer.await.body, "ok", "{probe}");
    }
    // It has started in the etcd of its flags.
    assert!(!etcd.value("/registry/namespaces/kube-system").is_empty());
}

/// kubeadm with `--patches` writes the file in this repository.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn patch_changes_the_image_and_adds_the_data_directory() {
    let server = tokio::task::block_in_place(Server::ephemeral);
    let kubectl = Kubectl::new(&server);
    let want = read(POD);
    let mut before = want.clone();
    before["spec"]["containers"][0]["image"] = "registry.k8s.io/kube-apiserver:v1.36.2".into();
    for list in ["/spec/volumes", "/spec/containers/0/volumeMounts"] {
        let list = before.pointer_mut(list).and_then(Value::as_array_mut).unwrap();
        list.retain(|entry| entry["name"] != "binnacle-data");
    }
    let temp = TempDir::new();
    let file = temp.file("kube-apiserver.json", &before.to_string());
    let patch = path(PATCH).display().to_string();
    let after = kubectl.json(&["patch", "--local", "--type=strategic", "--filename", &file, "--patch-file", &patch]);
    let sorted = |pod: &Value, list: &str| {
        let mut entries = pod.pointer(list).and_then(Value::as_array).cloned().unwrap();
        entries.sort_by_key(|entry| entry["name"].to_string());
        entries
    };
    for list in ["/spec/volumes", "/spec/containers/0/volumeMounts"] {
        assert_eq!(sorted(&after, list), sorted(&want, list), "{list}");
    }
    assert_eq!(after["spec"]["containers"][0]["image"], want["spec"]["containers"][0]["image"]);
}
