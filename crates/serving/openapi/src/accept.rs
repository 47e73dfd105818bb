//! Negotiation by the Accept header, as in kube-apiserver's OpenAPI handlers: the first clause with a known format is
//! chosen.

use binnacle_meta::{AcceptClause, accept_clauses};

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Protobuf,
}

/// The outcome of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negotiation {
    Format(Format),
    /// No clause names a known format.
    NotAcceptable,
    /// No clause is valid.
    Invalid,
}

/// Negotiates between JSON and protobuf, which has two names: `spec.v2.v1.0+protobuf` and the older
/// `spec.v2@v1.0+protobuf`.
pub(crate) fn negotiate(accept: &str, protobuf: [&str; 2]) -> Negotiation {
    if accept.is_empty() {
        return Negotiation::Format(Format::Json);
    }
    let clauses = accept_clauses(accept);
    if clauses.is_empty() {
        return Negotiation::Invalid;
    }
    let formats = [("json", Format::Json), (protobuf[0], Format::Protobuf), (protobuf[1], Format::Protobuf)];
    let format_of = |clause: &AcceptClause<'_>| {
        let main = matches!(clause.main, "application" | "*");
        formats.iter().find(|(sub, _)| main && (clause.sub == *sub || clause.sub == "*")).map(|(_, format)| *format)
    };
    clauses.iter().find_map(format_of).map_or(Negotiation::NotAcceptable, Negotiation::Format)
}

impl Format {
    pub(crate) fn choose<T>(self, json: T, protobuf: T) -> T {
        match self {
            Self::Json => json,
            Self::Protobuf => protobuf,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiates_format_by_accept_header() {
        const PROTOBUF: [&str; 2] = ["new+protobuf", "old+protobuf"];
        for (accept, want) in [
            ("", Negotiation::Format(Format::Json)),
            ("*/*", Negotiation::Format(Format::Json)),
            ("*", Negotiation::Format(Format::Json)),
            ("application/*", Negotiation::Format(Format::Json)),
            ("application/json;q=0.1, application/old+protobuf", Negotiation::Format(Format::Protobuf)),
            ("application/new+protobuf;q=0.5,application/json;q=0.6", Negotiation::Format(Format::Json)),
            ("*/*, application/new+protobuf", Negotiation::Format(Format::Protobuf)),
            ("text/html, application/json; charset=utf-8", Negotiation::Format(Format::Json)),
            ("text/html", Negotiation::NotAcceptable),
            ("text/*", Negotiation::NotAcceptable),
            ("*/json", Negotiation::Format(Format::Json)),
            ("application/yaml", Negotiation::NotAcceptable),
            ("json", Negotiation::Invalid),
            ("a/b/c", Negotiation::Invalid),
            (",", Negotiation::Invalid),
        ] {
            assert_eq!(negotiate(accept, PROTOBUF), want, "{accept}");
        }
    }
}
