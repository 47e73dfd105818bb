//! Access to the server for clients: its certificate, and files with the data that clients need.

use std::path::{Path, PathBuf};

use binnacle_controlplane::default_advertise_address;
use binnacle_server::{CertificateFiles, DefaultCertificate, TlsError};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::StartFailure;
use crate::authentication::Bundle;
use crate::data_dir::{DataDir, Durability, warn_if_open, write_private};
use crate::kubeconfig::kubeconfig;
use crate::pki::{Clock, Files, Names, Pki};
use crate::renewal::Own;
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
    /// The server's own key for service account tokens, as PEM.
    pub(super) service_account: String,
    /// The temporary directory of kubectl's file if there is no data directory; it is removed with the server.
    pub(super) place: Option<DataDir>,
    /// The certificates and files that are renewed while the server runs.
    pub(super) own: Own,
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
        let mut names = Names::new(config.serving.bind_address, config.misc.service_cluster_ip_ranges[0].nth(1));
        names.add(config.generic.external_hostname.as_deref(), config.public_address(default_advertise_address));
        warn_of_open_keys(config);
        let place = if data.is_none() { Some(DataDir::temporary()?) } else { None };
        let data = data.or(place.as_ref()).ok_or(StartFailure::NoPlace)?;
        let durability = if place.is_some() { Durability::Passing } else { Durability::Lasting };
        let directory = data.private("pki")?;
        let files = Files::new(directory, durability);
        let pki = Pki::open(&files, &names, clock())?;
        let given = config.serving.tls_files.is_some();
        // A certificate that an earlier start wrote to `--cert-dir` is the server's own, and is renewed like it.
        let named_tls = named_tls.filter(|(_, text)| given || !pki.has_signed(text));
        let (tls, foreign) = match named_tls {
            Some((files, text)) => (files, Some(text)),
            None => (DefaultCertificate::Made(pki.serving_files()?), None),
        };
        let home = data.path();
        let (clients, kubectl, kubeconfig) = match named_clients {
            None => {
                let own = Bundle::new("the server's own authority", pki.bundle.as_bytes())?;
                let path = home.join("admin.kubeconfig");
                (own, format!("kubectl --kubeconfig {}", quoted(&path)), Shape::Kubeconfig(path))
            }
            // Administrators have certificates of the given authority.
            Some(clients) => {
                let path = home.join("server-ca.crt");
                let kubectl = format!("kubectl --server {url} --certificate-authority {}", quoted(&path));
                (clients, kubectl, Shape::Authority(path))
            }
        };
        let identity = match &kubeconfig {
            Shape::Kubeconfig(path) => quoted(path),
            Shape::Authority(_) => "KUBECONFIG".to_owned(),
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
            DefaultCertificate::Made(_) => files.path("ca-bundle.crt"),
        };
        let controllers =
            format!("kube-controller-manager --kubeconfig {identity}{signing} --root-ca-file {}", quoted(&root),);
        let path = match &kubeconfig {
            Shape::Kubeconfig(path) => Some(path.clone()),
            Shape::Authority(_) => None,
        };
        let foreign = foreign.map(|text| Foreign { path: root.clone(), text });
        let told = Told {
            url: url.to_owned(),
            shape: kubeconfig,
            cert_dir: config.serving.cert_dir.clone().filter(|_| foreign.is_none()),
            foreign,
            durability,
        };
        told.write(&pki)?;
        let service_account = pki.service_account.clone();
        let own = Own::new(files, names, told, pki);
        Ok(Self { tls, clients, kubeconfig: path, kubectl, controllers, service_account, place, own })
    }
}

/// The files with the data that clients need to reach the server.
pub(crate) struct Told {
    url: String,
    shape: Shape,
    /// A serving certificate that is not the server's own: clients trust only this one.
    foreign: Option<Foreign>,
    /// The directory that gets a copy of the serving certificate.
    cert_dir: Option<PathBuf>,
    durability: Durability,
}

/// A certificate of the operator, which may be replaced while the server runs.
struct Foreign {
    path: PathBuf,
    text: String,
}

/// The kind of the file for clients.
enum Shape {
    /// A complete kubeconfig.
    Kubeconfig(PathBuf),
    /// The authority to trust; clients have their own credentials.
    Authority(PathBuf),
}

impl Told {
    /// Returns true if administrators use certificates of the server's own authority.
    pub(crate) fn has_administrator(&self) -> bool {
        matches!(self.shape, Shape::Kubeconfig(_))
    }

    /// Returns true if the operator replaces the certificate that clients trust.
    pub(crate) fn follows_others(&self) -> bool {
        self.foreign.is_some()
    }

    /// Reads a certificate of the operator again. An incomplete file is ignored.
    pub(crate) fn read_again(&mut self) {
        if let Some(foreign) = &mut self.foreign
            && let Ok(text) = std::fs::read_to_string(&foreign.path)
            && CertificateDer::from_pem_slice(text.as_bytes()).is_ok()
        {
            foreign.text = text;
        }
    }

    pub(crate) fn write(&self, pki: &Pki) -> Result<(), StartFailure> {
        if let Some(directory) = &self.cert_dir {
            let files = serving_pair(directory);
            std::fs::create_dir_all(directory)
                .map_err(|error| StartFailure::Write { path: directory.display().to_string(), error })?;
            self.write_file(&files.key, &pki.serving.key)?;
            self.write_file(&files.certificate, &pki.serving.certificate)?;
        }
        let trusted = self.foreign.as_ref().map_or(&pki.bundle, |foreign| &foreign.text);
        match &self.shape {
            Shape::Authority(path) => self.write_file(path, trusted),
            Shape::Kubeconfig(path) => {
                self.write_file(path, &kubeconfig(&self.url, trusted, &pki.admin.certificate, &pki.admin.key))
            }
        }
    }

    fn write_file(&self, path: &Path, text: &str) -> Result<(), StartFailure> {
        write_private(path, text.as_bytes(), self.durability)
            .map_err(|error| StartFailure::Write { path: path.display().to_string(), error })
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Warns of keys that others can read: the server does not change the permissions of files in flags.
fn warn_of_open_keys(config: &Settings) {
    let serving = config.serving.tls_files.iter().chain(config.serving.named.iter().map(|named| &named.files));
    let etcd = config.storage.etcd.as_ref().and_then(|etcd| etcd.key_file.as_deref());
    let signing = config.authentication.service_accounts.signing_key_file.as_deref();
    serving.map(|files| files.key.as_path()).chain(etcd).chain(signing).for_each(warn_if_open);
}

/// Returns the paths of the serving certificate in `--cert-dir`.
pub(super) fn serving_pair(directory: &Path) -> CertificateFiles {
    CertificateFiles { certificate: directory.join("apiserver.crt"), key: directory.join("apiserver.key") }
}

pub(super) fn read_text(path: &Path) -> Result<String, StartFailure> {
    std::fs::read_to_string(path)
        .map_err(|error| TlsError::Unreadable { path: path.display().to_string(), error }.into())
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn clients_are_told_of_a_certificate_that_was_replaced() {
        let place = DataDir::temporary().unwrap();
        let files = Files::new(place.private("pki").unwrap(), Durability::Passing);
        let names = Names::new([127, 0, 0, 1].into(), [10, 0, 0, 1].into());
        let pki = Pki::open(&files, &names, OffsetDateTime::now_utc()).unwrap();
        let (path, out) = (place.path().join("tls.crt"), place.path().join("server-ca.crt"));
        let mut told = Told {
            url: String::new(),
            shape: Shape::Authority(out.clone()),
            foreign: Some(Foreign { path: path.clone(), text: pki.admin.certificate.clone() }),
            cert_dir: None,
            durability: Durability::Passing,
        };
        for (text, want) in [
            (&pki.serving.certificate[..], &pki.serving.certificate),
            ("-----BEGIN CERTIFICATE-----\nhalf", &pki.serving.certificate),
            ("", &pki.serving.certificate),
            (&pki.admin.certificate, &pki.admin.certificate),
        ] {
            std::fs::write(&path, text).unwrap();
            told.read_again();
            told.write(&pki).unwrap();
            assert_eq!(std::fs::read_to_string(&out).unwrap(), *want);
        }
    }

    #[test]
    fn paths_for_a_shell() {
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
