//! The configuration file: `EgressSelectorConfiguration` of `apiserver.k8s.io`.

use std::path::{Path, PathBuf};

use binnacle_config::{Format, Types, list, text};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{FieldRef, messages};
use binnacle_meta::{go_quote, read_error};
use binnacle_schema::Field;

use crate::network::Network;

const FORMAT: Format = Format {
    group: "apiserver.k8s.io",
    versions: &["v1beta1", "v1alpha1"],
    kind: "EgressSelectorConfiguration",
    scheme: "k8s.io/apiserver/pkg/server/egressselector/config.go:33",
    fields,
};

messages! {
    EgressSelectorConfiguration { EGRESS_SELECTIONS: List<EgressSelection> = "egressSelections" }

    EgressSelection { NAME: Str = "name", CONNECTION: SelectedConnection = "connection" }

    SelectedConnection { PROXY_PROTOCOL: Str = "proxyProtocol", TRANSPORT: Transport = "transport" }

    Transport { TCP: TcpTransport = "tcp", UDS: UdsTransport = "uds" }

    TcpTransport { URL: Str = "url", TLS_CONFIG: TlsConfig = "tlsConfig" }

    UdsTransport { UDS_NAME: Str = "udsName" }

    TlsConfig {
        CA_BUNDLE: Str = "caBundle",
        CLIENT_KEY: Str = "clientKey",
        CLIENT_CERT: Str = "clientCert",
        TLS_SERVER_NAME: Str = "tlsServerName",
    }
}

/// Errors of the configuration file, with kube-apiserver's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error("failed to read egress selector config: {0}")]
    Read(String),
    #[error("failed to validate egress selector configuration: {0}")]
    Invalid(String),
    #[error("failed to setup egress selector: failed to create dialer for egressSelection {0}: {1}")]
    Dialer(String, String),
}

/// How connections to a network are established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Direct,
    HttpConnect(Proxy),
    /// Through the socket of a konnectivity server.
    Grpc(PathBuf),
}

/// The address of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String, Option<TlsFiles>),
}

/// The files for TLS with a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) server_name: Option<String>,
}

pub(crate) fn load(path: &Path) -> Result<Vec<(Network, Connection)>, EgressError> {
    let shown = path.display().to_string();
    let text = std::fs::read(path).map_err(|error| {
        let (quoted, why) = (go_quote(&shown), read_error(&shown, &error));
        EgressError::Read(format!("unable to read egress selector configuration from {quoted} [{why}]"))
    })?;
    parse(&text)
}

fn parse(text: &[u8]) -> Result<Vec<(Network, Connection)>, EgressError> {
    let file = FORMAT.read(text).map_err(|error| EgressError::Read(error.0))?;
    let file = FieldRef::<EgressSelectorConfiguration>::root(&file);
    let selections = file.at(EgressSelectorConfiguration::EGRESS_SELECTIONS);
    let mut errors: Vec<String> = selections
        .values()
        .flat_map(|selection| validate_connection(selection.at(EgressSelection::CONNECTION)))
        .collect();
    let mut seen: Vec<String> = Vec::new();
    for (at, selection) in selections.values().enumerate() {
        let name = selection.at(EgressSelection::NAME).str().to_lowercase();
        if seen.contains(&name) {
            errors.push(format!("service.connection[{at}]: Duplicate value: {}", go_quote(&name)));
        } else if Network::parse(&name).is_none() {
            let name = go_quote(&name);
            errors.push(format!(
                "service.connection: Unsupported value: {name}: supported values: \"cluster\", \"controlplane\", \"etcd\""
            ));
        }
        seen.push(name);
    }
    match errors.as_slice() {
        [] => {}
        [one] => return Err(EgressError::Invalid(one.clone())),
        several => return Err(EgressError::Invalid(format!("[{}]", several.join(", ")))),
    }
    let known = |selection: FieldRef<EgressSelection>| {
        let network = Network::parse(selection.at(EgressSelection::NAME).str())?;
        Some((network, parse_connection(selection.at(EgressSelection::CONNECTION))))
    };
    Ok(selections.values().filter_map(known).collect())
}

/// Parses a connection that was validated.
fn parse_connection(connection: FieldRef<SelectedConnection>) -> Connection {
    let transport = connection.at(SelectedConnection::TRANSPORT);
    let socket = || PathBuf::from(transport.at(Transport::UDS).at(UdsTransport::UDS_NAME).str());
    match connection.at(SelectedConnection::PROXY_PROTOCOL).str() {
        "HTTPConnect" => Connection::HttpConnect(match transport.at(Transport::TCP).set() {
            Some(tcp) => Proxy::Tcp(address(tcp.at(TcpTransport::URL).str()), tls(tcp)),
            None => Proxy::Unix(socket()),
        }),
        "GRPC" => Connection::Grpc(socket()),
        _ => Connection::Direct,
    }
}

fn tls(tcp: FieldRef<TcpTransport>) -> Option<TlsFiles> {
    if !tcp.at(TcpTransport::URL).str().starts_with("https://") {
        return None;
    }
    let tls = tcp.at(TcpTransport::TLS_CONFIG);
    let optional = |text: FieldRef<Str>| Some(text.str().to_owned()).filter(|text| !text.is_empty());
    Some(TlsFiles {
        authorities: optional(tls.at(TlsConfig::CA_BUNDLE)).map(PathBuf::from),
        certificate: tls.at(TlsConfig::CLIENT_CERT).str().into(),
        key: tls.at(TlsConfig::CLIENT_KEY).str().into(),
        server_name: optional(tls.at(TlsConfig::TLS_SERVER_NAME)),
    })
}

/// Returns the `host:port` of a URL; the port defaults to the scheme's.
fn address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    match (has_port, scheme) {
        (true, _) => host.to_owned(),
        (false, "https") => format!("{host}:443"),
        (false, _) => format!("{host}:80"),
    }
}

fn validate_connection(connection: FieldRef<SelectedConnection>) -> Vec<String> {
    let transport = connection.at(SelectedConnection::TRANSPORT);
    let (tcp, uds) = (transport.at(Transport::TCP), transport.at(Transport::UDS));
    let at = |field: &str, what: &str| format!("service.connection.{field}: {what}");
    match (connection.at(SelectedConnection::PROXY_PROTOCOL).str(), transport.is_set()) {
        ("Direct", false) => Vec::new(),
        ("Direct", true) => {
            vec![at("transport", "Invalid value: \"direct\": config must be absent for direct connect")]
        }
        ("HTTPConnect", false) => vec![at("transport", "Required value: transport must be set for HTTPConnect")],
        ("HTTPConnect", true) => match (tcp.is_set(), uds.is_set()) {
            (true, true) => {
                let shown = shown(tcp);
                vec![at("tcp", &format!("Invalid value: {shown}: TCP and UDS cannot both be set"))]
            }
            (false, false) => vec![at("tcp", "Required value: One of TCP or UDS must be set")],
            (true, false) => validate_tcp(tcp),
            (false, true) => validate_uds(uds),
        },
        ("GRPC", false) => vec![at("transport", "Required value: transport must be set for GRPC")],
        ("GRPC", true) if uds.is_set() => validate_uds(uds),
        ("GRPC", true) => vec![at("uds", "Required value: UDS must be set with GRPC")],
        (other, _) => {
            let other = go_quote(other);
            let what = format!("Unsupported value: {other}: supported values: \"Direct\", \"HTTPConnect\", \"GRPC\"");
            vec![at("protocol", &what)]
        }
    }
}

fn validate_uds(uds: FieldRef<UdsTransport>) -> Vec<String> {
    match uds.at(UdsTransport::UDS_NAME).str() {
        "" => {
            vec!["service.connection.udsName: Invalid value: \"nil\": must be present for UDS connections".to_owned()]
        }
        _ => Vec::new(),
    }
}

fn validate_tcp(tcp: FieldRef<TcpTransport>) -> Vec<String> {
    let (url, tls) = (tcp.at(TcpTransport::URL).str(), tcp.at(TcpTransport::TLS_CONFIG));
    let at = |field: &str, what: &str| format!("service.connection.{field}: {what}");
    if url.starts_with("http://") {
        let errors = at("tlsConfig", "Invalid value: \"nil\": config must not be present when using HTTP");
        return tls.set().map(|_| errors).into_iter().collect();
    }
    if !url.starts_with("https://") {
        let url = go_quote(url);
        let what = format!("Invalid value: {url}: supported connection protocols are http:// and https://");
        return vec![at("url", &what)];
    }
    if !tls.is_set() {
        return vec![at("tlsConfig", "Required value: TLSConfig must be present when using HTTPS")];
    }
    let mut errors = Vec::new();
    for (field, needed, missing) in [
        (TlsConfig::CA_BUNDLE, None, "TLS config ca bundle does not exist"),
        (TlsConfig::CLIENT_CERT, Some("Using TLS requires clientCert"), "TLS client cert does not exist"),
        (TlsConfig::CLIENT_KEY, Some("Using TLS requires requires clientKey"), "TLS client key does not exist"),
    ] {
        let path = format!("tlsConfig.{}", field.name());
        match (tls.at(field).str(), needed) {
            ("", None) => {}
            ("", Some(needed)) => errors.push(at(&path, &format!("Invalid value: \"nil\": {needed}"))),
            (file, _) if !Path::new(file).exists() => {
                errors.push(at(&path, &format!("Invalid value: {}: {missing}", go_quote(file))));
            }
            _ => {}
        }
    }
    errors
}

/// Formats a transport like Go's internal type.
fn shown(tcp: FieldRef<TcpTransport>) -> String {
    let quoted = |text: FieldRef<Str>| serde_json::Value::from(text.str()).to_string();
    let tls = tcp.at(TcpTransport::TLS_CONFIG).set().map_or("null".to_owned(), |tls| {
        format!(
            "{{\"CABundle\":{},\"ClientKey\":{},\"ClientCert\":{},\"TLSServerName\":{}}}",
            quoted(tls.at(TlsConfig::CA_BUNDLE)),
            quoted(tls.at(TlsConfig::CLIENT_KEY)),
            quoted(tls.at(TlsConfig::CLIENT_CERT)),
            quoted(tls.at(TlsConfig::TLS_SERVER_NAME))
        )
    });
    format!("{{\"URL\":{},\"TLSConfig\":{tls}}}", quoted(tcp.at(TcpTransport::URL)))
}

fn fields(types: Types) -> Vec<Field> {
    let file = |handle: binnacle_fields::Field<TlsConfig, Str>| text(handle.name());
    let tls =
        [TlsConfig::CA_BUNDLE, TlsConfig::CLIENT_KEY, TlsConfig::CLIENT_CERT, TlsConfig::TLS_SERVER_NAME].map(file);
    let tls = types.object("TLSConfig", tls.into());
    let tls = Field::new(TcpTransport::TLS_CONFIG.name(), tls);
    let tcp = types.object("TCPTransport", vec![text(TcpTransport::URL.name()), tls]);
    let uds = types.object("UDSTransport", vec![text(UdsTransport::UDS_NAME.name())]);
    let tcp_or_uds = vec![Field::new(Transport::TCP.name(), tcp), Field::new(Transport::UDS.name(), uds)];
    let transport = Field::new(SelectedConnection::TRANSPORT.name(), types.object("Transport", tcp_or_uds));
    let connection = types.object("Connection", vec![text(SelectedConnection::PROXY_PROTOCOL.name()), transport]);
    let connection = Field::new(EgressSelection::CONNECTION.name(), connection);
    let selection = types.object("EgressSelection", vec![text(EgressSelection::NAME.name()), connection]);
    vec![list(EgressSelectorConfiguration::EGRESS_SELECTIONS.name(), selection)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(selections: &str) -> Result<Vec<(Network, Connection)>, String> {
        let head = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n";
        parse(format!("{head}{selections}").as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_every_kind_of_connection() {
        let http = |address: &str| Connection::HttpConnect(Proxy::Tcp(address.to_owned(), None));
        for (connection, want) in [
            ("{proxyProtocol: Direct}", Connection::Direct),
            ("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://a:1/x'}}}", http("a:1")),
            ("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://[::1]'}}}", http("[::1]:80")),
            (
                "{proxyProtocol: HTTPConnect, transport: {uds: {udsName: /run/p}}}",
                Connection::HttpConnect(Proxy::Unix("/run/p".into())),
            ),
            ("{proxyProtocol: GRPC, transport: {uds: {udsName: /run/p}}}", Connection::Grpc("/run/p".into())),
        ] {
            let read = read(&format!("- name: Cluster\n  connection: {connection}"));
            assert_eq!(read, Ok(vec![(Network::Cluster, want)]), "{connection}");
        }
    }

    #[test]
    fn reports_invalid_selections_like_kube_apiserver() {
        for (selections, want) in [
            (
                "- name: cluster\n  connection: {proxyProtocol: X}",
                "service.connection.protocol: Unsupported value: \"X\": supported values: \"Direct\", \"HTTPConnect\", \"GRPC\"",
            ),
            (
                "- name: x\n  connection: {proxyProtocol: Direct, transport: {}}",
                "[service.connection.transport: Invalid value: \"direct\": config must be absent for direct connect, service.connection: Unsupported value: \"x\": supported values: \"cluster\", \"controlplane\", \"etcd\"]",
            ),
            (
                "- name: etcd\n  connection: {proxyProtocol: HTTPConnect}\n- name: Etcd\n  connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: x}}}",
                "[service.connection.transport: Required value: transport must be set for HTTPConnect, service.connection.url: Invalid value: \"x\": supported connection protocols are http:// and https://, service.connection[1]: Duplicate value: \"etcd\"]",
            ),
            (
                "- name: etcd\n  connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://x', tlsConfig: {caBundle: /n, clientKey: /n}}}}\n- name: cluster\n  connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://x', tlsConfig: {}}, uds: {udsName: a}}}\n- name: controlplane\n  connection: {proxyProtocol: GRPC, transport: {uds: {}}}",
                "[service.connection.tlsConfig.caBundle: Invalid value: \"/n\": TLS config ca bundle does not exist, service.connection.tlsConfig.clientCert: Invalid value: \"nil\": Using TLS requires clientCert, service.connection.tlsConfig.clientKey: Invalid value: \"/n\": TLS client key does not exist, service.connection.tcp: Invalid value: {\"URL\":\"http://x\",\"TLSConfig\":{\"CABundle\":\"\",\"ClientKey\":\"\",\"ClientCert\":\"\",\"TLSServerName\":\"\"}}: TCP and UDS cannot both be set, service.connection.udsName: Invalid value: \"nil\": must be present for UDS connections]",
            ),
        ] {
            assert_eq!(read(selections), Err(format!("failed to validate egress selector configuration: {want}")));
        }
        let unknown =
            "failed to read egress selector config: strict decoding error: unknown field \"egressSelections[0].bogus\"";
        assert_eq!(read("- name: etcd\n  bogus: 1"), Err(unknown.to_owned()));
    }
}
