//! Names with an optional scheme and port: `name`, `name:port`, `scheme:name:port`.

use std::sync::Arc;

use binnacle_client::{ConnectionOptions, Target};
use binnacle_meta::Status;
use rustls::ClientConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location<'a> {
    /// `http`, `https`, or empty.
    pub(super) scheme: &'a str,
    pub(super) name: &'a str,
    /// A number or a name; empty if absent.
    pub(super) port: &'a str,
}

impl<'a> Location<'a> {
    pub(super) fn parse(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        let valid = !name.is_empty() && matches!(scheme, "" | "http" | "https");
        valid.then_some(Self { scheme, name, port })
    }

    pub(super) fn tls(&self, config: &Arc<ClientConfig>) -> Option<Arc<ClientConfig>> {
        (self.scheme == "https").then(|| config.clone())
    }

    /// Returns the port, which must be numeric.
    pub(super) fn numeric_port(&self) -> Result<Option<u16>, Status> {
        if self.port.is_empty() {
            return Ok(None);
        }
        self.port.parse().map(Some).map_err(|_| {
            let why = format!("error trying to reach service: dial tcp: lookup tcp/{}: unknown port", self.port);
            Status::service_unavailable(why)
        })
    }
}

/// Returns the target for a server in the cluster, with a single address.
pub(super) fn target_at(ip: &str, port: Option<u16>, tls: Option<Arc<ClientConfig>>) -> Target {
    Target {
        host: ip.to_owned(),
        port,
        tls,
        addresses: None,
        server_name: None,
        connection: ConnectionOptions::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_scheme_name_and_port() {
        let location = |scheme, name, port| Some(Location { scheme, name, port });
        for (id, want) in [
            ("a", location("", "a", "")),
            ("a:", location("", "a", "")),
            ("a:80", location("", "a", "80")),
            ("a:web", location("", "a", "web")),
            ("https:a:443", location("https", "a", "443")),
            ("https:a:", location("https", "a", "")),
            (":a:1", location("", "a", "1")),
            ("ftp:a:1", None),
            ("", None),
            (":80", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(Location::parse(id), want, "{id}");
        }
    }
}
