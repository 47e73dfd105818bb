//! Content negotiation for discovery: aggregated or plain, and the encoding.

use binnacle_meta::{AcceptClause, Encoding, Encodings, accept_clauses};

/// The negotiated format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Format {
    /// True for a single document with all groups and their resources.
    pub(crate) aggregated: bool,
    /// True for the profile `nopeer`: only this server's resources, without those of its peers.
    pub(crate) excludes_peers: bool,
    pub(crate) encoding: Encoding,
}

/// Negotiates the format of the response; `None` if no accepted format is available.
///
/// If the endpoint offers the aggregated document, clauses for it precede plain ones, regardless of their order.
pub(crate) fn negotiate(accept: &str, aggregated_offered: bool) -> Option<Format> {
    if accept.is_empty() {
        return Some(Format { aggregated: false, excludes_peers: false, encoding: Encoding::Json });
    }
    let clauses = accept_clauses(accept);
    let first = |aggregated: bool| {
        clauses
            .iter()
            .flat_map(|clause| Encodings::STANDARD.list().iter().map(move |encoding| (clause, *encoding)))
            .find(|(clause, encoding)| clause.covers(*encoding) && allows(clause, aggregated, *encoding))
            .map(|(clause, encoding)| {
                let excludes_peers = aggregated && clause.parameter("profile") == Some("nopeer");
                Format { aggregated, excludes_peers, encoding }
            })
    };
    aggregated_offered.then(|| first(true)).flatten().or_else(|| first(false))
}

/// Returns true if the parameters of a clause allow this format.
fn allows(clause: &AcceptClause<'_>, aggregated: bool, encoding: Encoding) -> bool {
    // Discovery documents have no YAML stream and no other server version.
    let stream = clause.parameter("stream").unwrap_or("");
    if !stream.is_empty() && (stream != "watch" || encoding == Encoding::Yaml) {
        return false;
    }
    if clause.parameter("sv").is_some_and(|version| !version.is_empty()) {
        return false;
    }
    let kind = (clause.parameter("g"), clause.parameter("v"), clause.parameter("as"));
    match aggregated {
        true => kind == (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")),
        false => kind == (None, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

    #[test]
    fn negotiates_format_by_accept_header() {
        let plain = |encoding| Some(Format { aggregated: false, excludes_peers: false, encoding });
        let aggregated = |encoding| Some(Format { aggregated: true, excludes_peers: false, encoding });
        let excludes_peers = |encoding| Some(Format { aggregated: true, excludes_peers: true, encoding });
        for (accept, expected) in [
            (String::new(), plain(Encoding::Json)),
            ("*/*".into(), plain(Encoding::Json)),
            ("application/*".into(), plain(Encoding::Json)),
            ("application/yaml".into(), plain(Encoding::Yaml)),
            ("application/vnd.kubernetes.protobuf,application/json".into(), plain(Encoding::Protobuf)),
            ("application/yaml;q=0.5, application/json".into(), plain(Encoding::Json)),
            ("text/html".into(), None),
            (V2.into(), aggregated(Encoding::Json)),
            (format!("application/json,{V2}"), aggregated(Encoding::Json)),
            (format!("{V2};profile=nopeer"), excludes_peers(Encoding::Json)),
            (format!("{V2};profile=other"), aggregated(Encoding::Json)),
            (format!("{V2};profile=nopeer,{V2},application/json"), excludes_peers(Encoding::Json)),
            (V2.replace("json", "*"), aggregated(Encoding::Json)),
            (V2.replace("json", "vnd.kubernetes.protobuf"), aggregated(Encoding::Protobuf)),
            (V2BETA1.into(), None),
            (format!("{V2BETA1},application/json"), plain(Encoding::Json)),
            (format!("{V2BETA1},{V2},application/json;q=0.9"), aggregated(Encoding::Json)),
            ("application/json;as=Table;g=meta.k8s.io;v=v1".into(), None),
            ("application/json;stream=watch".into(), plain(Encoding::Json)),
            ("application/json;stream=other".into(), None),
        ] {
            assert_eq!(negotiate(&accept, true), expected, "{accept}");
        }
        assert_eq!(negotiate(V2, false), None);
        assert_eq!(negotiate(&format!("{V2},application/json"), false), plain(Encoding::Json));
    }
}
