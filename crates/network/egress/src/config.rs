//! The configuration file: `EgressSelectorConfiguration` of `apiserver.k8s.io`.

use std::path::{Path, PathBuf};

use binnacle_config::{Format, Types, list, text};
use binnacle_meta::{go_quote, read_error};
use binnacle_schema::{Field, Value};

use crate::network::Network;

const FORMAT: Format = Format {
    group: "apiserver.k8s.io",
    versions: &["v1beta1", "v1alpha1"],
    kind: "EgressSelectorConfiguration",
    scheme: "k8s.io/apiserver/pkg/server/egressselector/config.go:33",
    fields,
};

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
    let selections = file.list_at(&["egressSelections"]);
    let mut errors: Vec<String> =
        selections.iter().flat_map(|selection| validate_connection(connection(selection))).collect();
    let mut seen: Vec<String> = Vec::new();
    for (at, selection) in selections.iter().enumerate() {
        let name = selection.str_at(&["name"]).to_lowercase();
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
    let known = |selection: &Value| {
        Some((Network::parse(selection.str_at(&["name"]))?, parse_connection(connection(selection))))
    };
    Ok(selections.iter().filter_map(known).collect())
}

fn connection(selection: &Value) -> &Value {
    selection.get("connection").unwrap_or(&Value::Null)
}

/// Returns the member at a path, or `None` if it is absent or `null`.
fn part<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    value.at(path).filter(|part| !part.is_null())
}

/// Parses a connection that was validated.
fn parse_connection(connection: &Value) -> Connection {
    let socket = || PathBuf::from(connection.str_at(&["transport", "uds", "udsName"]));
    match connection.str_at(&["proxyProtocol"]) {
        "HTTPConnect" => Connection::HttpConnect(match part(connection, &["transport", "tcp"]) {
            Some(tcp) => Proxy::Tcp(address(tcp.str_at(&["url"])), tls(tcp)),
            None => Proxy::Unix(socket()),
        }),
        "GRPC" => Connection::Grpc(socket()),
        _ => Connection::Direct,
    }
}

fn tls(tcp: &Value) -> Option<TlsFiles> {
    if !tcp.str_at(&["url"]).starts_with("https://") {
        return None;
    }
    let field = |name: &str| Some(tcp.str_at(&["tlsConfig", name])).filter(|text| !text.is_empty());
    Some(TlsFiles {
        authorities: field("caBundle").map(PathBuf::from),
        certificate: field("clientCert").unwrap_or_default().into(),
        key: field("clientKey").unwrap_or_default().into(),
        server_name: field("tlsServerName").map(str::to_owned),
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

fn validate_connection(connection: &Value) -> Vec<String> {
    let transport = part(connection, &["transport"]);
    let at = |field: &str, what: &str| format!("service.connection.{field}: {what}");
    match (connection.str_at(&["proxyProtocol"]), transport) {
        ("Direct", None) => Vec::new(),
        ("Direct", Some(_)) => {
            vec![at("transport", "Invalid value: \"direct\": config must be absent for direct connect")]
        }
        ("HTTPConnect", None) => vec![at("transport", "Required value: transport must be set for HTTPConnect")],
        ("HTTPConnect", Some(transport)) => match (part(transport, &["tcp"]), part(transport, &["uds"])) {
            (Some(tcp), Some(_)) => {
                let shown = shown(tcp);
                vec![at("tcp", &format!("Invalid value: {shown}: TCP and UDS cannot both be set"))]
            }
            (None, None) => vec![at("tcp", "Required value: One of TCP or UDS must be set")],
            (Some(tcp), None) => validate_tcp(tcp),
            (None, Some(uds)) => validate_uds(uds),
        },
        ("GRPC", None) => vec![at("transport", "Required value: transport must be set for GRPC")],
        ("GRPC", Some(transport)) => match part(transport, &["uds"]) {
            Some(uds) => validate_uds(uds),
            None => vec![at("uds", "Required value: UDS must be set with GRPC")],
        },
        (other, _) => {
            let other = go_quote(other);
            let what = format!("Unsupported value: {other}: supported values: \"Direct\", \"HTTPConnect\", \"GRPC\"");
            vec![at("protocol", &what)]
        }
    }
}

fn validate_uds(uds: &Value) -> Vec<String> {
    match uds.str_at(&["udsName"]) {
        "" => {
            vec!["service.connection.udsName: Invalid value: \"nil\": must be present for UDS connections".to_owned()]
        }
        _ => Vec::new(),
    }
}

fn validate_tcp(tcp: &Value) -> Vec<String> {
    let (url, tls) = (tcp.str_at(&["url"]), part(tcp, &["tlsConfig"]));
    let at = |field: &str, what: &str| format!("service.connection.{field}: {what}");
    if url.starts_with("http://") {
        let errors = at("tlsConfig", "Invalid value: \"nil\": config must not be present when using HTTP");
        return tls.map(|_| errors).into_iter().collect();
    }
    if !url.starts_with("https://") {
        let url = go_quote(url);
        let what = format!("Invalid value: {url}: supported connection protocols are http:// and https://");
        return vec![at("url", &what)];
    }
    let Some(tls) = tls else {
        return vec![at("tlsConfig", "Required value: TLSConfig must be present when using HTTPS")];
    };
    let mut errors = Vec::new();
    for (field, needed, missing) in [
        ("caBundle", None, "TLS config ca bundle does not exist"),
        ("clientCert", Some("Using TLS requires clientCert"), "TLS client cert does not exist"),
        ("clientKey", Some("Using TLS requires requires clientKey"), "TLS client key does not exist"),
    ] {
        let path = tls.str_at(&[field]);
        let field = format!("tlsConfig.{field}");
        match (path, needed) {
            ("", None) => {}
            ("", Some(needed)) => errors.push(at(&field, &format!("Invalid value: \"nil\": {needed}"))),
            (path, _) if !Path::new(path).exists() => {
                errors.push(at(&field, &format!("Invalid value: {}: {missing}", go_quote(path))));
            }
            _ => {}
        }
    }
    errors
}

/// Formats a transport like Go's internal type.
fn shown(tcp: &Value) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let tls = part(tcp, &["tlsConfig"]).map_or("null".to_owned(), |tls| {
        let field = |name: &str| quoted(tls.str_at(&[name]));
        format!(
            "{{\"CABundle\":{},\"ClientKey\":{},\"ClientCert\":{},\"TLSServerName\":{}}}",
            field("caBundle"),
            field("clientKey"),
            field("clientCert"),
            field("tlsServerName")
        )
    });
    format!("{{\"URL\":{},\"TLSConfig\":{tls}}}", quoted(tcp.str_at(&["url"])))
}

fn fields(types: Types) -> Vec<Field> {
    let tls =
        types.object("TLSConfig", vec![text("caBundle"), text("clientKey"), text("clientCert"), text("tlsServerName")]);
    let tcp = types.object("TCPTransport", vec![text("url"), Field::new("tlsConfig", tls)]);
    let uds = types.object("UDSTransport", vec![text("udsName")]);
    let transport = types.object("Transport", vec![Field::new("tcp", tcp), Field::new("uds", uds)]);
    let connection = types.object("Connection", vec![text("proxyProtocol"), Field::new("transport", transport)]);
    let selection = types.object("EgressSelection", vec![text("name"), Field::new("connection", connection)]);
    vec![list("egressSelections", selection)]
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
