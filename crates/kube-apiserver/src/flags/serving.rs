//! Where the server listens and what it shows.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Secure serving",
    flags: &[
        Flag::new(
            "bind-address",
            Kind::Value("ip"),
            "127.0.0.1",
            "Address to listen on. An unspecified one (0.0.0.0 or ::) stands for all interfaces.",
        ),
        Flag::new("secure-port", Kind::Value("int"), "6443", "Port for HTTPS; 0 takes a free one and prints which."),
        Flag::new(
            "tls-cert-file",
            Kind::Value("string"),
            "",
            "File with the serving certificate, followed by those of its authorities. If not set, the server makes one.",
        ),
        Flag::new(
            "tls-private-key-file",
            Kind::Value("string"),
            "",
            "File with the private key that belongs to --tls-cert-file.",
        ),
    ],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) bind_address: IpAddr,
    pub(crate) secure_port: u16,
    /// Certificate and key.
    pub(crate) tls_files: Option<(PathBuf, PathBuf)>,
}

impl Serving {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        let bind_address = given.ip("bind-address")?.unwrap_or(IpAddr::from([127, 0, 0, 1]));
        let port = given.integer("secure-port")?;
        let secure_port = u16::try_from(port)
            .map_err(|_| FlagError::new(format!("--secure-port {port} must be between 0 and 65535, inclusive")))?;
        let tls_files = match (given.text("tls-cert-file"), given.text("tls-private-key-file")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            _ => {
                return Err(FlagError::new("--tls-cert-file and --tls-private-key-file must be specified together"));
            }
        };
        Ok(Self { bind_address, secure_port, tls_files })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port)
    }
}
