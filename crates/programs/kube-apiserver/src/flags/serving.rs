//! Flags for the listener: its address, certificates, TLS versions and suites.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use binnacle_apiserver::settings::Serving;
use binnacle_meta::go_quote;
use binnacle_transport::{CertificateFiles, NamedCertificate, PortSharing, TlsSettings};

use super::FromFlags;
use super::generic::list;
use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Secure serving",
    flags: &[
        Flag::new(
            "bind-address",
            ValueKind::Value("ip"),
            "127.0.0.1",
            "Address to listen on. An unspecified one (0.0.0.0 or ::) stands for all interfaces, and is the default where \
             --advertise-address says that others reach the server, as kubeadm does.",
        ),
        Flag::new(
            "cert-dir",
            ValueKind::Value("string"),
            "",
            "Directory of apiserver.crt and apiserver.key: taken from there if both exist, otherwise made and kept there. If not \
             set, the data directory. --tls-cert-file goes before it.",
        ),
        Flag::new("disable-http2-serving", ValueKind::Bool, "", "Leave HTTP/2 out."),
        Flag::new(
            "http2-max-streams-per-connection",
            ValueKind::Value("int"),
            "0",
            "How many requests one HTTP/2 connection may have in flight; 0 for the default of 250.",
        ),
        Flag::new(
            "permit-port-sharing",
            ValueKind::Bool,
            "",
            "Let other processes listen on the same port (SO_REUSEPORT).",
        ),
        Flag::new(
            "secure-port",
            ValueKind::Value("int"),
            "6443",
            "Port for HTTPS; 0 takes a free one and prints which.",
        ),
        Flag::new(
            "tls-cert-file",
            ValueKind::Value("string"),
            "",
            "File with the serving certificate, followed by those of its authorities. If not set, the server makes one.",
        ),
        Flag::new(
            "tls-cipher-suites",
            ValueKind::Value("strings"),
            "",
            "Cipher suites for TLS 1.2, by Go's names. Those without forward secrecy or authenticated encryption are left out \
             with a warning.",
        ),
        Flag::new(
            "tls-curve-preferences",
            ValueKind::Value("int32Slice"),
            "",
            "Key exchanges by Go's numbers: 23 (P-256), 24 (P-384), 29 (X25519). Others that Go knows are left out with a warning.",
        ),
        Flag::new(
            "tls-min-version",
            ValueKind::Value("string"),
            "",
            "VersionTLS12 or VersionTLS13. VersionTLS10 and VersionTLS11 mean 1.2, which is the oldest that is spoken.",
        ),
        Flag::new(
            "tls-private-key-file",
            ValueKind::Value("string"),
            "",
            "File with the private key that belongs to --tls-cert-file.",
        ),
        Flag::new(
            "tls-sni-cert-key",
            ValueKind::Value("namedCertKey"),
            "",
            "Certificate and key for clients that ask for certain names: CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,NAME with domains \
             (whole segments may be *) and addresses. Without names, those in the certificate count. May be given more than once.",
        ),
    ],
};

/// Returns the address to listen on. A server whose advertised address is another machine's way to it listens there, as Go's
/// does without any flag: kubeadm names only that one.
fn bind_address(flags: &FlagSet) -> Result<IpAddr, FlagError> {
    let default = IpAddr::from([127, 0, 0, 1]);
    let bound = flags.ip("bind-address")?.unwrap_or(default);
    let advertised = flags.ip("advertise-address")?.filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
    Ok(match advertised {
        Some(IpAddr::V4(_)) if !flags.is_given("bind-address") => Ipv4Addr::UNSPECIFIED.into(),
        Some(IpAddr::V6(_)) if !flags.is_given("bind-address") => Ipv6Addr::UNSPECIFIED.into(),
        _ => bound,
    })
}

impl FromFlags for Serving {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let bind_address = bind_address(flags)?;
        let port = flags.integer("secure-port")?;
        let secure_port = u16::try_from(port)
            .map_err(|_| FlagError::new(format!("--secure-port {port} must be between 0 and 65535, inclusive")))?;
        let tls_files = match (flags.text("tls-cert-file"), flags.text("tls-private-key-file")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(CertificateFiles { certificate: certificate.into(), key: key.into() })
            }
            _ => {
                return Err(FlagError::new("--tls-cert-file and --tls-private-key-file must be specified together"));
            }
        };
        let streams = flags.integer("http2-max-streams-per-connection")?;
        let named = flags.all("tls-sni-cert-key").into_iter();
        let named =
            named.map(|text| named_certificate(text).map_err(|why| flags.invalid("tls-sni-cert-key", text, why)));
        let sharing = flags.flag("permit-port-sharing")?;
        Ok(Self {
            bind_address,
            secure_port,
            tls_files,
            cert_dir: flags.text("cert-dir").map(PathBuf::from),
            tls: tls_settings(flags)?,
            named: named.collect::<Result<_, _>>()?,
            // Numbers below one mean the default, as in kube-apiserver.
            max_streams: u32::try_from(streams).ok().filter(|streams| *streams > 0),
            sharing: if sharing { PortSharing::Permitted } else { PortSharing::Refused },
        })
    }
}

fn tls_settings(flags: &FlagSet) -> Result<TlsSettings, FlagError> {
    let mut settings = TlsSettings { without_http2: flags.flag("disable-http2-serving")?, ..TlsSettings::default() };
    settings.set_min_version(flags.text("tls-min-version").unwrap_or_default()).map_err(FlagError::new)?;
    settings.set_suites(&list(flags, "tls-cipher-suites")).map_err(FlagError::new)?;
    let mut numbers: Vec<i64> = Vec::new();
    for text in list(flags, "tls-curve-preferences") {
        let number = text.trim().parse::<i32>().map_err(|_| {
            let why = format!("strconv.ParseInt: parsing {}: invalid syntax", go_quote(text));
            flags.invalid("tls-curve-preferences", text, &why)
        })?;
        if !(1..=65_535).contains(&number) {
            let why = format!("curve preference {number} is out of range (must be 1-65535)");
            return Err(FlagError::new(why));
        }
        if numbers.contains(&i64::from(number)) {
            return Err(FlagError::new(format!("duplicate curve preference {number}")));
        }
        numbers.push(i64::from(number));
    }
    settings.set_groups(&numbers).map_err(FlagError::new)?;
    Ok(settings)
}

/// Parses `certificate,key` or `certificate,key:name,name`.
fn named_certificate(text: &str) -> Result<NamedCertificate, &'static str> {
    let (files, names) = match text.split_once(':') {
        Some((_, names)) if names.trim().is_empty() => return Err("empty names list is not allowed"),
        Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_owned()).collect()),
        None => (text, Vec::new()),
    };
    let paths: Vec<&str> = files.trim().split(',').map(str::trim).collect();
    let [certificate, key] = paths.as_slice() else {
        return Err("expected comma separated certificate and key file paths");
    };
    Ok(NamedCertificate { files: CertificateFiles { certificate: certificate.into(), key: key.into() }, names })
}
