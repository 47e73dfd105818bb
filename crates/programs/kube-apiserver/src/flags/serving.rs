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
            "IP address on which to listen for --secure-port. 0.0.0.0 or :: means all interfaces; this is the default \
             if --advertise-address is neither unspecified nor loopback, as with kubeadm.",
        ),
        Flag::new(
            "cert-dir",
            ValueKind::Value("string"),
            "",
            "Directory of the TLS certificate apiserver.crt and its key apiserver.key: used if both exist, otherwise \
             generated there. Ignored with --tls-cert-file and --tls-private-key-file. If not set, the data \
             directory.",
        ),
        Flag::new("disable-http2-serving", ValueKind::Bool, "", "Serve HTTP/1.1 only."),
        Flag::new(
            "http2-max-streams-per-connection",
            ValueKind::Value("int"),
            "0",
            "Maximum number of concurrent streams, which are requests in flight, of an HTTP/2 connection. 0 means the \
             default of 100.",
        ),
        Flag::new(
            "permit-port-sharing",
            ValueKind::Bool,
            "",
            "Bind the port with SO_REUSEPORT, so that several processes can listen on the same address and port.",
        ),
        Flag::new(
            "secure-port",
            ValueKind::Value("int"),
            "6443",
            "Port on which to serve HTTPS, from 1 to 65535. 0 selects a free port, which is printed.",
        ),
        Flag::new(
            "tls-cert-file",
            ValueKind::Value("string"),
            "",
            "File with the x509 serving certificate (PEM), followed by intermediate CA certificates if there are any. \
             Requires --tls-private-key-file. If not set, the server generates a certificate with its own CA.",
        ),
        Flag::new(
            "tls-cipher-suites",
            ValueKind::Value("strings"),
            "",
            "Cipher suites for TLS 1.2 by Go's names, comma-separated, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. \
             Suites without forward secrecy or authenticated encryption are skipped with a warning. If not set, all \
             supported suites.",
        ),
        Flag::new(
            "tls-curve-preferences",
            ValueKind::Value("int32Slice"),
            "",
            "Curves for key exchange by Go's CurveID, comma-separated: 23 (CurveP256), 24 (CurveP384), 29 (X25519). \
             Others that Go knows are skipped with a warning.",
        ),
        Flag::new(
            "tls-min-version",
            ValueKind::Value("string"),
            "",
            "Minimum TLS version: VersionTLS12 (the default) or VersionTLS13. VersionTLS10 and VersionTLS11 are \
             accepted and mean VersionTLS12.",
        ),
        Flag::new(
            "tls-private-key-file",
            ValueKind::Value("string"),
            "",
            "File with the x509 private key (PEM) of --tls-cert-file.",
        ),
        Flag::new(
            "tls-sni-cert-key",
            ValueKind::Value("namedCertKey"),
            "",
            "x509 certificate and private key for clients that request certain names (SNI): CERTIFICATE,KEY or \
             CERTIFICATE,KEY:PATTERN,PATTERN, where patterns are domain names (whole segments may be *) or IP \
             addresses. Without patterns, the names in the certificate count. May be repeated.",
        ),
    ],
};

/// Returns the address to listen on. A server whose advertised address is another machine's way to it listens there, as
/// Go's does without any flag: kubeadm names only that one.
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
