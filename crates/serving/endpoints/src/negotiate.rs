//! Negotiation of the media type of a response by the Accept header, in two steps as in kube-apiserver: the router
//! checks bare types, then the handler considers parameters.

use binnacle_meta::{AcceptClause, Status, accept_clauses, accept_names};
pub use binnacle_meta::{Encoding, Encodings};
use binnacle_request::Request;

const STREAMING: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
/// A sequence of documents (RFC 8742).
pub(crate) const CBOR_SEQUENCE: &str = "application/cbor-seq";

/// Returns the media types of watches.
fn stream_media_types(encodings: Encodings) -> Vec<&'static str> {
    STREAMING.into_iter().chain(encodings.has_cbor().then_some(CBOR_SEQUENCE)).collect()
}

/// The transformation of an object that the client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    None,
    Table(MetaVersion),
    PartialMetadata(MetaVersion),
    PartialMetadataList(MetaVersion),
}

/// The version of `meta.k8s.io` of tables and partial objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The negotiated output of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub encoding: Encoding,
    pub transform: Transform,
    /// True for indented JSON.
    pub pretty: bool,
}

impl Output {
    /// The output of responses without negotiation.
    pub const JSON: Self = Self { encoding: Encoding::Json, transform: Transform::None, pretty: false };
}

/// The outputs that an endpoint offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A single object.
    Object,
    /// A list or a watch, whose routes also offer stream types.
    Collection,
}

/// Optional outputs of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfferedOutputs {
    pub(crate) table: bool,
    /// True if the object itself can be encoded in protobuf; tables and metadata always can.
    pub(crate) protobuf: bool,
    pub(crate) encodings: Encodings,
}

/// Negotiates the output of the response, after the router's check. For watches, `is_watch` excludes outputs that
/// cannot be streamed. If an output is not offered, the next alternative of the client is used.
pub(crate) fn output(request: &Request, is_watch: bool, offered_outputs: OfferedOutputs) -> Result<Output, Status> {
    let accept = request.header("accept").unwrap_or("");
    let pretty = wants_pretty(request);
    if accept.is_empty() {
        return Ok(Output { pretty, ..Output::JSON });
    }
    for clause in &accept_clauses(accept) {
        for encoding in offered_outputs.encodings.list().iter().copied() {
            if !clause.covers(encoding) {
                continue;
            }
            let Some((transform, stream)) = parse_parameters(clause, encoding) else { continue };
            if stream && encoding == Encoding::Yaml {
                continue;
            }
            if !offered_outputs.table && matches!(transform, Transform::Table(_)) {
                continue;
            }
            if !offered_outputs.protobuf && encoding == Encoding::Protobuf && transform == Transform::None {
                continue;
            }
            // kube-apiserver then tries no other output.
            if is_watch && encoding == Encoding::Yaml {
                return Err(Status::not_acceptable(&stream_media_types(offered_outputs.encodings)));
            }
            return Ok(Output { encoding, transform, pretty: pretty || is_pretty(clause) });
        }
    }
    Err(Status::not_acceptable(&offered_outputs.encodings.media_types()))
}

/// Returns the encoding of a failure: the first one that the client accepts, and whether it is indented. `None` if the
/// client accepts only transformations such as tables, which failures do not support.
pub(crate) fn encoding(accept: &str, encodings: Encodings) -> Option<(Encoding, bool)> {
    if accept.is_empty() {
        return Some((Encoding::Json, false));
    }
    let plain = |clause: &AcceptClause<'_>, encoding| {
        clause.covers(encoding) && matches!(parse_parameters(clause, encoding), Some((Transform::None, _)))
    };
    let known = |clause: &AcceptClause<'_>| {
        let encoding = encodings.list().iter().copied().find(|encoding| plain(clause, *encoding))?;
        Some((encoding, is_pretty(clause)))
    };
    accept_clauses(accept).iter().find_map(known)
}

/// Returns true if a JSON document is to be indented, by the query or by a parameter of the accepted type.
pub(crate) fn pretty_json(request: &Request) -> bool {
    let accept = request.header("accept").unwrap_or("");
    let clauses = accept_clauses(accept);
    wants_pretty(request) || clauses.iter().find(|clause| clause.covers(Encoding::Json)).is_some_and(is_pretty)
}

fn is_pretty(clause: &AcceptClause<'_>) -> bool {
    clause.parameter("pretty") == Some("1")
}

/// Returns the encoding of a body by its media type. Parameters are ignored; an absent type means JSON.
pub fn input(content_type: Option<&str>, encodings: Encodings) -> Result<Encoding, Status> {
    encodings
        .of_content_type(content_type.unwrap_or(""))
        .ok_or_else(|| Status::unsupported_media_type(&encodings.media_types()))
}

/// Checks the Accept header as the router does, which compares types without parameters and does not support
/// `application/*`.
pub(crate) fn router_accepts(accept: &str, offer: Offer, encodings: Encodings) -> Result<(), Status> {
    let mut offered = encodings.media_types();
    if accept_names(accept, &offered) {
        return Ok(());
    }
    if offer == Offer::Collection {
        offered.extend(stream_media_types(encodings));
        // This type has no parameters.
        if encodings.has_cbor() && accept_names(accept, &[CBOR_SEQUENCE]) {
            return Ok(());
        }
    }
    Err(Status::router_not_acceptable(&offered))
}

/// Returns true for `?pretty=`, or for a browser or a similar client.
pub(crate) fn wants_pretty(request: &Request) -> bool {
    binnacle_request::pretty(&request.headers, &request.query)
}

/// Returns the requested transformation, and whether a stream is requested; `None` if the endpoint does not offer it.
fn parse_parameters(clause: &AcceptClause<'_>, encoding: Encoding) -> Option<(Transform, bool)> {
    let stream = match clause.parameter("stream").filter(|s| !s.is_empty()) {
        None => false,
        Some("watch") => true,
        Some(_) => return None,
    };
    if clause.parameter("sv").is_some_and(|version| !version.is_empty() && version != "v1") {
        return None;
    }
    let (kind, group, version) = (clause.parameter("as"), clause.parameter("g"), clause.parameter("v"));
    if kind.is_none() && group.is_none() && version.is_none() {
        return Some((Transform::None, stream));
    }
    let version = match (group, version) {
        (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
        (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1beta1,
        _ => return None,
    };
    let transform = match kind {
        Some("Table") if encoding.is_text() => Transform::Table(version),
        Some("PartialObjectMetadata") => Transform::PartialMetadata(version),
        Some("PartialObjectMetadataList") => Transform::PartialMetadataList(version),
        _ => return None,
    };
    Some((transform, stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_never_transformed() {
        for (accept, want) in [
            ("", Some((Encoding::Json, false))),
            ("*/*", Some((Encoding::Json, false))),
            ("application/json;pretty=1", Some((Encoding::Json, true))),
            ("application/yaml", Some((Encoding::Yaml, false))),
            ("application/vnd.kubernetes.protobuf", Some((Encoding::Protobuf, false))),
            ("application/vnd.kubernetes.protobuf;stream=watch", Some((Encoding::Protobuf, false))),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", None),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml", Some((Encoding::Yaml, false))),
            ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", None),
            ("text/plain", None),
        ] {
            assert_eq!(encoding(accept, Encodings::STANDARD), want, "{accept}");
        }
    }
}
