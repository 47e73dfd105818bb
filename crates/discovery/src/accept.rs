//! The Accept header of a discovery request: aggregated or plain, and in which encoding.

/// How the bytes of a document are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// All groups with all their resources in one document.
    pub(crate) aggregated: bool,
    pub(crate) encoding: Encoding,
}

/// More clauses than a sensible client sends are not looked at.
const MAX_CLAUSES: usize = 64;

impl Encoding {
    /// In the order in which a wildcard picks them.
    pub const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    pub(crate) fn media_types() -> [&'static str; 3] {
        Self::ALL.map(Self::media_type)
    }
}

/// The form of the answer; `None` when nothing that the client accepts can be made.
///
/// A clause that asks for the aggregated document wins over plain ones, whatever their order, where the endpoint has one.
pub(crate) fn negotiate(accept: &str, aggregated_offered: bool) -> Option<Form> {
    if accept.is_empty() {
        return Some(Form { aggregated: false, encoding: Encoding::Json });
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').take(MAX_CLAUSES).filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let first = |aggregated: bool| {
        clauses
            .iter()
            .flat_map(|clause| Encoding::ALL.into_iter().map(move |encoding| (clause, encoding)))
            .find(|(clause, encoding)| clause.covers(*encoding) && clause.allows(aggregated, *encoding))
            .map(|(_, encoding)| Form { aggregated, encoding })
    };
    aggregated_offered.then(|| first(true)).flatten().or_else(|| first(false))
}

/// Whether the reference's router lets the request through to a handler: it compares bare media types, and knows no
/// `application/*`.
pub(crate) fn router_accepts(accept: &str) -> bool {
    accept.is_empty()
        || accept.split(',').take(MAX_CLAUSES).any(|clause| {
            let bare = clause.split(';').next().unwrap_or("").trim();
            bare == "*/*" || Encoding::media_types().contains(&bare)
        })
}

/// One alternative of an Accept header.
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    quality: f64,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (main, sub) = parts.next()?.split_once('/')?;
        let mut clause = Self { main: main.trim(), sub: sub.trim(), quality: 1.0, parameters: Vec::new() };
        for part in parts.take(MAX_CLAUSES) {
            let Some((name, value)) = part.split_once('=') else { continue };
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name == "q" {
                clause.quality = value.parse().unwrap_or(1.0);
            } else {
                clause.parameters.push((name, value));
            }
        }
        Some(clause)
    }

    fn covers(&self, encoding: Encoding) -> bool {
        match (self.main, self.sub) {
            ("*", "*") | ("application", "*") => true,
            (main, sub) => encoding.media_type().split_once('/') == Some((main, sub)),
        }
    }

    fn allows(&self, aggregated: bool, encoding: Encoding) -> bool {
        let parameter = |name| self.parameters.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value);
        // A discovery document has no stream form in YAML, and no other server version.
        let stream = parameter("stream").unwrap_or("");
        if !stream.is_empty() && (stream != "watch" || encoding == Encoding::Yaml) {
            return false;
        }
        if parameter("sv").is_some_and(|version| !version.is_empty()) {
            return false;
        }
        let kind = (parameter("g"), parameter("v"), parameter("as"));
        match aggregated {
            true => kind == (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")),
            false => kind == (None, None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

    #[test]
    fn forms() {
        let plain = |encoding| Some(Form { aggregated: false, encoding });
        let aggregated = |encoding| Some(Form { aggregated: true, encoding });
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
            (format!("{V2};profile=nopeer"), aggregated(Encoding::Json)),
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

    #[test]
    fn router() {
        for (accept, expected) in [
            ("", true),
            ("*/*", true),
            (V2, true),
            ("application/*", false),
            ("text/html", false),
            ("text/html, */*;q=0.1", true),
        ] {
            assert_eq!(router_accepts(accept), expected, "{accept}");
        }
    }
}
