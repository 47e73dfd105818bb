//! Flags for connections to kubelets: logs, exec, attach, port-forward and proxies to nodes.

use binnacle_kubelet::{ClientCertificate, Config};
use binnacle_meta::GoDuration;

use super::parse::FlagSet;
use super::table::{Flag, FlagError, ValueKind};

pub(super) const AUTHORITY: Flag = Flag::new(
    "kubelet-certificate-authority",
    ValueKind::Value("string"),
    "",
    "File with the certificate authorities for the serving certificates of kubelets. If not set, they are not \
     verified.",
);
pub(super) const CERTIFICATE: Flag = Flag::new(
    "kubelet-client-certificate",
    ValueKind::Value("string"),
    "",
    "File with the TLS client certificate for kubelets. Requires --kubelet-client-key. It is reloaded when it \
     changes.",
);
pub(super) const KEY: Flag = Flag::new(
    "kubelet-client-key",
    ValueKind::Value("string"),
    "",
    "File with the private key of --kubelet-client-certificate.",
);
pub(super) const PORT: Flag = Flag::new(
    "kubelet-port",
    ValueKind::Value("uint"),
    "10250",
    "DEPRECATED: port of kubelets whose nodes do not report one.",
);
pub(super) const READ_ONLY_PORT: Flag =
    Flag::new("kubelet-read-only-port", ValueKind::Value("uint"), "10255", "DEPRECATED: accepted and not used.");
pub(super) const ADDRESS_TYPES: Flag = Flag::new(
    "kubelet-preferred-address-types",
    ValueKind::Value("strings"),
    "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP",
    "Types of node addresses (NodeAddressType) for connections to kubelets, by preference, comma-separated.",
);
pub(super) const TIMEOUT: Flag = Flag::new(
    "kubelet-timeout",
    ValueKind::Value("duration"),
    "5s",
    "Timeout of requests to kubelets. Accepted for compatibility and not used: streams to kubelets have no timeout.",
);

pub(super) fn read(flags: &FlagSet) -> Result<Config, FlagError> {
    let identity = match (flags.text(CERTIFICATE.name), flags.text(KEY.name)) {
        (Some(certificate), Some(key)) => Some(ClientCertificate::Files(certificate.into(), key.into())),
        (None, None) => None,
        _ => {
            return Err(FlagError::new(
                "--kubelet-client-certificate and --kubelet-client-key must be specified together",
            ));
        }
    };
    let timeout = flags.text(TIMEOUT.name).unwrap_or_default();
    GoDuration::parse(timeout).map_err(|error| flags.invalid(TIMEOUT.name, timeout, &error.to_string()))?;
    port(flags, READ_ONLY_PORT.name)?;
    Ok(Config {
        identity,
        authority: flags.text(AUTHORITY.name).map(Into::into),
        preferred_address_types: list(flags, ADDRESS_TYPES.name),
        port: port(flags, PORT.name)?,
    })
}

fn port(flags: &FlagSet, name: &str) -> Result<u16, FlagError> {
    let number = flags.integer(name)?;
    u16::try_from(number)
        .map_err(|_| FlagError::new(format!("--{name} {number} must be between 0 and 65535, inclusive")))
}

/// Returns the comma-separated values from all occurrences of a flag.
fn list(flags: &FlagSet, name: &str) -> Vec<String> {
    flags.all(name).into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
}
