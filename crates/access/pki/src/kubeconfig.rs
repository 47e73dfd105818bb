//! `admin.kubeconfig`: the file that gives kubectl administrator access to this server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns a kubeconfig with embedded certificates and keys.
pub fn kubeconfig(server: &str, authority_pem: &str, certificate_pem: &str, key_pem: &str) -> String {
    let [authority, certificate, key] = [authority_pem, certificate_pem, key_pem].map(|pem| STANDARD.encode(pem));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: binnacle
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: binnacle
  context:
    cluster: binnacle
    user: admin
current-context: binnacle
"
    )
}
