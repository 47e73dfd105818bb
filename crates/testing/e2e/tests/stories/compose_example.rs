//! The example for Docker Compose (`examples/compose`): the server runs with its command line, and the other programs
//! find what their flags name.

use std::path::Path;
use std::process::Command;

use binnacle_testkit::{Server, TempDir};
use serde_json::Value;

use crate::documents::{read, texts};

const DATA: &str = "/var/lib/binnacle";

fn has_volume(service: &Value, volume: &str) -> bool {
    texts(&service["volumes"]).iter().any(|found| found == volume)
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn server_runs_and_components_find_their_files() {
    let compose = read("examples/compose/compose.yaml");
    let services = &compose["services"];
    let temp = TempDir::new();
    let data = temp.join("data");
    let server = &services["kube-apiserver"];
    assert!(has_volume(server, &format!("data:{DATA}")) && compose["volumes"].get("data").is_some());
    // The kubeconfig has the port that is published.
    assert_eq!(texts(&server["ports"]), ["127.0.0.1:6443:6443"]);
    let flags = texts(&server["command"]);
    assert!(!flags.iter().any(|flag| flag.starts_with("--secure-port")), "6443 is the default");
    let mut flags: Vec<String> = flags
        .iter()
        .map(|flag| flag.replace(DATA, &data).replace("--bind-address=0.0.0.0", "--bind-address=127.0.0.1"))
        .collect();
    flags.push("--secure-port=0".to_owned());
    let running = Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>());

    for name in ["kube-controller-manager", "kube-scheduler"] {
        let component = &services[name];
        assert_eq!(component["network_mode"], "service:kube-apiserver", "the kubeconfig has a loopback address");
        assert!(has_volume(component, &format!("data:{DATA}:ro")), "{name}");
        assert_eq!(component["user"], "65532:65532", "the files are for the server's user only");
        let command = texts(&component["command"]);
        assert_eq!(command[0], name);
        let files = command[1..].iter().filter_map(|flag| flag.split_once("=/"));
        for (flag, file) in files {
            let file = format!("/{file}").replace(DATA, &data);
            assert!(Path::new(&file).is_file(), "{name} {flag}={file}");
        }
        let kubeconfig = command.iter().find_map(|flag| flag.strip_prefix("--kubeconfig=")).unwrap();
        let mut kubectl = Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
        kubectl.arg("--kubeconfig").arg(kubeconfig.replace(DATA, &data)).args(["auth", "can-i", "*", "*"]);
        let output = kubectl.output().unwrap();
        assert!(output.status.success(), "{name} at {}: {output:?}", running.address);
    }
}
