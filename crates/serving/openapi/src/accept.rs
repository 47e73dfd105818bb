//! Negotiation by the Accept header, as in kube-apiserver's OpenAPI handlers: the first clause with a known form wins.

use binnacle_meta::{AcceptClause, accept_clauses};

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
}

/// The outcome of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Form(Form),
    /// No clause has a known form.
    Nothing,
    /// No clause is valid.
    Unreadable,
}

/// Negotiates between JSON and the two names of the protobuf form: `spec.v2.v1.0+protobuf` and the older
/// `spec.v2@v1.0+protobuf`.
pub(crate) fn negotiate(accept: &str, protobuf: [&str; 2]) -> Wanted {
    if accept.is_empty() {
        return Wanted::Form(Form::Json);
    }
    let clauses = accept_clauses(accept);
    if clauses.is_empty() {
        return Wanted::Unreadable;
    }
    let forms = [("json", Form::Json), (protobuf[0], Form::Protobuf), (protobuf[1], Form::Protobuf)];
    let fits = |clause: &AcceptClause<'_>| {
        let main = matches!(clause.main, "application" | "*");
        forms.iter().find(|(sub, _)| main && (clause.sub == *sub || clause.sub == "*")).map(|(_, form)| *form)
    };
    clauses.iter().find_map(fits).map_or(Wanted::Nothing, Wanted::Form)
}

impl Form {
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
    fn choices() {
        const PROTOBUF: [&str; 2] = ["new+protobuf", "old+protobuf"];
        for (accept, want) in [
            ("", Wanted::Form(Form::Json)),
            ("*/*", Wanted::Form(Form::Json)),
            ("*", Wanted::Form(Form::Json)),
            ("application/*", Wanted::Form(Form::Json)),
            ("application/json;q=0.1, application/old+protobuf", Wanted::Form(Form::Protobuf)),
            ("application/new+protobuf;q=0.5,application/json;q=0.6", Wanted::Form(Form::Json)),
            ("*/*, application/new+protobuf", Wanted::Form(Form::Protobuf)),
            ("text/html, application/json; charset=utf-8", Wanted::Form(Form::Json)),
            ("text/html", Wanted::Nothing),
            ("text/*", Wanted::Nothing),
            ("*/json", Wanted::Form(Form::Json)),
            ("application/yaml", Wanted::Nothing),
            ("json", Wanted::Unreadable),
            ("a/b/c", Wanted::Unreadable),
            (",", Wanted::Unreadable),
        ] {
            assert_eq!(negotiate(accept, PROTOBUF), want, "{accept}");
        }
    }
}
