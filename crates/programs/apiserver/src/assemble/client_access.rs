//! Access to the server for clients: its certificate, and files with the data that clients need.

use std::path::{Path, PathBuf};

use binnacle_controlplane::default_advertise_address;
use binnacle_pki::private_files::{Durability, warn_if_world_readable};
use binnacle_pki::{
    ClientFile, ClientFiles, Clock, Files, OperatorCertificate, Pki, Renewer, SERVING_CERTIFICATE, SERVING_KEY,
    SubjectAltNames,
};
use binnacle_transport::{CertificateFiles, DefaultCertificate, TlsError};

use super::StartFailure;
use super::own_certificates::tls_files;
use crate::authority_bundle::Bundle;
use crate::data_dir::{DataDir, remove_abandoned};
use crate::settings::Settings;

/// The server's certificate, and the files and commands for clients.
pub(super) struct ClientAccess {
    pub(super) tls: DefaultCertificate,
    /// The authorities whose client certificates are accepted.
    pub(super) clients: Bundle,
    /// The kubectl command with the flags to reach this server.
    pub(super) kubectl: String,
    /// The administrator's kubeconfig, if client certificates are of the server's own authority.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The command that starts controllers.
    pub(super) controllers: String,
    /// The file with the authorities of the server's certificate, for clients to trust.
    pub(super) authorities: PathBuf,
    /// The server's own key for service account tokens, as PEM.
    pub(super) service_account: String,
    /// The temporary directory of kubectl's file if there is no data directory; it is removed with the server.
    pub(super) place: Option<DataDir>,
    /// Renews the certificates and files while the server runs.
    pub(super) renewer: Renewer,
}

impl ClientAccess {
    /// Uses the given files, creates the others, and writes the file for kubectl.
    pub(super) fn prepare(
        named_tls: Option<(DefaultCertificate, String)>,
        named_clients: Option<Bundle>,
        config: &Settings,
        data: Option<&DataDir>,
        url: &str,
        clock: &Clock,
    ) -> Result<Self, StartFailure> {
        let mut names =
            SubjectAltNames::new(config.serving.bind_address, config.misc.service_cluster_ip_ranges[0].nth(1));
        names.add(config.generic.external_hostname.as_deref(), config.public_address(default_advertise_address));
        // The clusters that the server hosts have names in this domain.
        names.add(config.misc.cluster_domain.as_deref().map(|domain| format!("*.{domain}")).as_deref(), None);
        warn_of_open_keys(config);
        let place = if data.is_none() { Some(temporary()?) } else { None };
        let data = data.or(place.as_ref()).ok_or(StartFailure::NoPlace)?;
        let durability = if place.is_some() { Durability::Ephemeral } else { Durability::Durable };
        let directory = data.private("pki")?;
        let files = Files::new(directory, durability);
        let pki = Pki::open(&files, &names, clock())?;
        let given = config.serving.tls_files.is_some();
        // A certificate that an earlier start wrote to `--cert-dir` is the server's own, and is renewed like it.
        let named_tls = named_tls.filter(|(_, text)| given || !pki.has_signed(text));
        let (tls, operators) = match named_tls {
            Some((files, text)) => (files, Some(text)),
            None => (DefaultCertificate::Generated(tls_files(pki.serving_certificate()?)), None),
        };
        let home = data.path();
        let (clients, kubectl, file) = match named_clients {
            None => {
                let own = Bundle::new("the server's own authority", pki.bundle.as_bytes())?;
                let path = home.join("admin.kubeconfig");
                (own, format!("kubectl --kubeconfig {}", quoted(&path)), ClientFile::Kubeconfig(path))
            }
            // Administrators have certificates of the given authority.
            Some(clients) => {
                let path = home.join("server-ca.crt");
                let kubectl = format!("kubectl --server {url} --certificate-authority {}", quoted(&path));
                (clients, kubectl, ClientFile::Authority(path))
            }
        };
        let identity = match &file {
            ClientFile::Kubeconfig(path) => quoted(path),
            ClientFile::Authority(_) => "KUBECONFIG".to_owned(),
        };
        let own_key = files.path("sa.key");
        let accounts = &config.authentication.service_accounts;
        let signing = match accounts.signing_endpoint {
            // Only the signer has the key.
            Some(_) => String::new(),
            None => {
                let key = accounts.signing_key_file.as_deref().unwrap_or(&own_key);
                format!(" --service-account-private-key-file {}", quoted(key))
            }
        };
        let root = match &tls {
            DefaultCertificate::Files(files) => files.certificate.clone(),
            DefaultCertificate::Generated(_) => files.path("ca-bundle.crt"),
        };
        let controllers =
            format!("kube-controller-manager --kubeconfig {identity}{signing} --root-ca-file {}", quoted(&root),);
        let kubeconfig = match &file {
            ClientFile::Kubeconfig(path) => Some(path.clone()),
            ClientFile::Authority(_) => None,
        };
        let operator = operators.map(|text| OperatorCertificate { path: root.clone(), text });
        let client_files = ClientFiles {
            url: url.to_owned(),
            file,
            serving_copy: config.serving.cert_dir.clone().filter(|_| operator.is_none()),
            operator,
            durability,
        };
        client_files.write(&pki)?;
        let service_account = pki.service_account.clone();
        let renewer = Renewer::new(files, names, client_files, pki);
        let authorities = root;
        Ok(Self { tls, clients, kubeconfig, kubectl, controllers, authorities, service_account, place, renewer })
    }
}

/// Creates the directory of a server without persistent files. Those of killed servers are removed in the background.
fn temporary() -> Result<DataDir, StartFailure> {
    tokio::task::spawn_blocking(|| remove_abandoned(&std::env::temp_dir()));
    Ok(DataDir::temporary()?)
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Warns about keys that other users can read: the server does not change the permissions of files in flags.
fn warn_of_open_keys(config: &Settings) {
    let serving = config.serving.tls_files.iter().chain(config.serving.named.iter().map(|named| &named.files));
    let etcd = config.storage.etcd.as_ref().and_then(|etcd| etcd.key_file.as_deref());
    let signing = config.authentication.service_accounts.signing_key_file.as_deref();
    serving.map(|files| files.key.as_path()).chain(etcd).chain(signing).for_each(warn_if_world_readable);
}

/// Returns the paths of the serving certificate in `--cert-dir`.
pub(super) fn serving_pair(directory: &Path) -> CertificateFiles {
    CertificateFiles { certificate: directory.join(SERVING_CERTIFICATE), key: directory.join(SERVING_KEY) }
}

pub(super) fn read_text(path: &Path) -> Result<String, StartFailure> {
    std::fs::read_to_string(path)
        .map_err(|error| TlsError::Unreadable { path: path.display().to_string(), error }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_certificate_covers_interface_addresses() {
        let names = |listen: [u8; 4]| SubjectAltNames::new(listen.into(), [10, 0, 0, 1].into());
        let own = default_advertise_address(false);
        let any = names([0, 0, 0, 0]);
        assert!(own.is_none_or(|own| any.ips.contains(&own)), "{own:?} {any:?}");
        assert!(any.ips.iter().all(|ip| !ip.is_unspecified()));
        assert_eq!(names([127, 0, 0, 1]).ips.len(), 3);
        let both = SubjectAltNames::new(std::net::Ipv6Addr::UNSPECIFIED.into(), [10, 0, 0, 1].into());
        assert!(any.ips.iter().all(|ip| both.ips.contains(ip)), "{any:?} {both:?}");
    }

    #[test]
    fn quotes_paths_for_shells() {
        for (path, want) in [
            ("/var/lib/binnacle", "/var/lib/binnacle"),
            ("/a b", "'/a b'"),
            ("/it's", "'/it'\\''s'"),
            ("/$HOME", "'/$HOME'"),
        ] {
            assert_eq!(quoted(Path::new(path)), want);
        }
    }
}
