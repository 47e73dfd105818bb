//! `admin.kubeconfig`: the file that makes kubectl an administrator of this server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A kubeconfig with everything inside of it.
pub(crate) fn kubeconfig(server: &str, authority_pem: &str, certificate_pem: &str, key_pem: &str) -> String {
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
