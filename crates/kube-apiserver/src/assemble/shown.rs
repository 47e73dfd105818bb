//! What the server shows of itself: its certificate, and files that tell clients how to reach it.

use std::path::Path;

use binnacle_server::{CertificateFiles, DefaultCertificate, TlsError};

use super::StartError;
use crate::authentication::Bundle;
use crate::data_dir::{DataDir, write_private};
use crate::flags::Config;
use crate::kubeconfig::kubeconfig;
use crate::pki::{Names, Pki};

/// What the server shows of itself, and how clients reach it.
pub(super) struct Shown {
    pub(super) tls: DefaultCertificate,
    /// Whose client certificates are accepted.
    pub(super) clients: Bundle,
    /// The command that begins every example.
    pub(super) kubectl: String,
    /// The server's own key for service account tokens, as PEM.
    pub(super) service_account: String,
    /// Where the file for kubectl is when there is no data directory; it goes away with the server.
    pub(super) place: Option<DataDir>,
}

impl Shown {
    /// Takes what was named, makes the rest, and writes the file that kubectl needs.
    pub(super) fn prepare(
        named_tls: Option<(DefaultCertificate, String)>,
        named_clients: Option<Bundle>,
        config: &Config,
        data: Option<&DataDir>,
        url: &str,
    ) -> Result<Self, StartError> {
        let mut names = Names::new(config.serving.bind_address, config.misc.service_cluster_ip_ranges[0].nth(1));
        names.add(config.generic.external_hostname.as_deref(), config.generic.advertise_address);
        let (pki, place) = match data {
            Some(data) => (Pki::open(&data.private("pki")?, &names)?, None),
            None => (Pki::generate(&names)?, Some(DataDir::temporary()?)),
        };
        let home = data.or(place.as_ref()).ok_or(StartError::NoPlace)?.path();
        let (tls, trusted) = match named_tls {
            Some((files, text)) => (files, text),
            None => {
                if let Some(directory) = &config.serving.cert_dir {
                    let files = serving_pair(directory);
                    std::fs::create_dir_all(directory)
                        .map_err(|error| StartError::Write { path: directory.display().to_string(), error })?;
                    write(&files.certificate, &pki.serving.certificate)?;
                    write(&files.key, &pki.serving.key)?;
                }
                (DefaultCertificate::Made(pki.serving_files()?), pki.authority.clone())
            }
        };
        let (clients, kubectl) = match named_clients {
            None => {
                let path = home.join("admin.kubeconfig");
                write(&path, &kubeconfig(url, &trusted, &pki.admin.certificate, &pki.admin.key))?;
                let own = Bundle::new("the server's own authority", pki.authority.as_bytes())?;
                (own, format!("kubectl --kubeconfig {}", path.display()))
            }
            // The named authority's administrators bring their own certificates.
            Some(clients) => {
                let path = home.join("server-ca.crt");
                write(&path, &trusted)?;
                (clients, format!("kubectl --server {url} --certificate-authority {}", path.display()))
            }
        };
        Ok(Self { tls, clients, kubectl, service_account: pki.service_account, place })
    }
}

/// Where `--cert-dir` has the serving certificate.
pub(super) fn serving_pair(directory: &Path) -> CertificateFiles {
    CertificateFiles { certificate: directory.join("apiserver.crt"), key: directory.join("apiserver.key") }
}

pub(super) fn read_text(path: &Path) -> Result<String, StartError> {
    std::fs::read_to_string(path)
        .map_err(|error| TlsError::Unreadable { path: path.display().to_string(), error }.into())
}

fn write(path: &Path, text: &str) -> Result<(), StartError> {
    write_private(path, text.as_bytes()).map_err(|error| StartError::Write { path: path.display().to_string(), error })
}
