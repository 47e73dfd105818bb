//! Settings of the listener and its certificates.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use binnacle_transport::{CertificateFiles, NamedCertificate, PortSharing, TlsSettings};

#[derive(Clone, Debug)]
pub struct Serving {
    pub bind_address: IpAddr,
    pub secure_port: u16,
    /// Certificate and key.
    pub tls_files: Option<CertificateFiles>,
    pub cert_dir: Option<PathBuf>,
    pub tls: TlsSettings,
    pub named: Vec<NamedCertificate>,
    /// `None` means the default.
    pub max_streams: Option<u32>,
    pub sharing: PortSharing,
}

impl Serving {
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port)
    }
}

impl Default for Serving {
    /// Listens on kube-apiserver's port, for this machine only.
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            secure_port: 6443,
            tls_files: None,
            cert_dir: None,
            tls: TlsSettings::default(),
            named: Vec::new(),
            max_streams: None,
            sharing: PortSharing::Refused,
        }
    }
}
