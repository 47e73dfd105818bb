//! Media types: the encodings of objects, and Accept headers.

/// The encoding of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
    Cbor,
}

/// The encodings that a server offers, in order of preference for a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encodings {
    cbor: bool,
}

/// One clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptClause<'a> {
    pub main: &'a str,
    pub sub: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// The maximum number of clauses, and of parameters per clause; the rest is ignored.
const MAX_CLAUSES: usize = 64;

impl Encoding {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::Cbor => "application/cbor",
        }
    }

    /// Returns true for text formats.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

impl Encodings {
    /// The encodings that every server supports.
    pub const STANDARD: Self = Self { cbor: false };

    /// Returns the standard encodings, with CBOR if `cbor` is true (feature gate `CBORServingAndStorage`).
    pub fn new(cbor: bool) -> Self {
        Self { cbor }
    }

    pub fn list(self) -> &'static [Encoding] {
        const ALL: [Encoding; 4] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf, Encoding::Cbor];
        if self.cbor { &ALL } else { &ALL[..3] }
    }

    pub fn has_cbor(self) -> bool {
        self.cbor
    }

    pub fn media_types(self) -> Vec<&'static str> {
        self.list().iter().map(|encoding| encoding.media_type()).collect()
    }

    /// Returns the encoding of a media type without parameters.
    pub fn of(self, media_type: &str) -> Option<Encoding> {
        self.list().iter().copied().find(|encoding| encoding.media_type() == media_type)
    }

    /// Returns the encoding of a body by its Content-Type. JSON if the header is empty; `None` for other types and
    /// invalid parameters.
    pub fn of_content_type(self, header: &str) -> Option<Encoding> {
        let mut parts = header.split(';');
        let media_type = parts.next().unwrap_or("").trim();
        if header.is_empty() {
            return Some(Encoding::Json);
        }
        // The header may end with a semicolon, and a quoted value may contain semicolons.
        let mut quoted = false;
        let mut rest = parts.peekable();
        while let Some(part) = rest.next() {
            let starts_parameter = !quoted;
            quoted ^= part.matches('"').count() % 2 == 1;
            let ends_header = part.trim().is_empty() && rest.peek().is_none();
            let named = part.split_once('=').is_some_and(|(name, value)| !name.trim().is_empty() && !value.is_empty());
            if starts_parameter && !named && !ends_header {
                return None;
            }
        }
        self.of(&media_type.to_ascii_lowercase())
    }
}

/// Returns the clauses of an Accept header in the order in which kube-apiserver tries them.
///
/// Clauses are not sorted by quality alone: one directly after a wildcard precedes it, regardless of their qualities.
pub fn accept_clauses(header: &str) -> Vec<AcceptClause<'_>> {
    let mut clauses: Vec<AcceptClause<'_>> =
        header.split(',').take(MAX_CLAUSES).filter_map(AcceptClause::parse).collect();
    for sorted in 1..clauses.len() {
        let mut at = sorted;
        while at > 0 && clauses[at].goes_before(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

/// Returns true if kube-apiserver's router accepts a request for a handler that produces these media types. It compares
/// types without parameters, and `*/*` is the only wildcard.
pub fn accept_names(header: &str, produced: &[&str]) -> bool {
    header.is_empty() || bare_types(header).any(|bare| bare == "*/*" || produced.contains(&bare))
}

/// Returns true if kube-apiserver's router accepts the Content-Type of a request without a body for a handler that
/// consumes these media types. Unlike in [`accept_names`], `*/*` is no wildcard.
pub fn content_type_names(header: &str, consumed: &[&str]) -> bool {
    header.is_empty() || bare_types(header).any(|bare| consumed.contains(&bare))
}

fn bare_types(header: &str) -> impl Iterator<Item = &str> {
    header.split(',').take(MAX_CLAUSES).map(|clause| clause.split(';').next().unwrap_or("").trim_matches(' '))
}

impl<'a> AcceptClause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.trim_matches(' ').split(';');
        let range = parts.next()?;
        let (main, sub) = match range.split_once('/') {
            Some((main, rest)) if !rest.is_empty() => (main, rest.strip_suffix('/').unwrap_or(rest)),
            // A single `*` means `*/*`.
            other => (other.map_or(range, |(main, _)| main), "*"),
        };
        let (main, sub) = (main.trim_matches(' '), sub.trim_matches(' '));
        let whole = range.split_once('/').is_some_and(|(_, rest)| !rest.is_empty());
        if sub.contains('/') || (!whole && main != "*") {
            return None;
        }
        let mut clause = Self { main, sub, quality: 1.0, parameters: Vec::new() };
        for part in parts.take(MAX_CLAUSES) {
            let Some((name, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty()) else { continue };
            if value.contains('=') {
                continue;
            }
            if name.trim_matches(' ') == "q" {
                clause.quality = value.parse().unwrap_or(0.0);
            } else {
                clause.parameters.push((name.trim_matches(' '), value.trim_matches(' ')));
            }
        }
        Some(clause)
    }

    /// Returns the last parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    pub fn covers(&self, encoding: Encoding) -> bool {
        match (self.main, self.sub) {
            ("*", "*") | ("application", "*") => true,
            (main, sub) => encoding.media_type().split_once('/') == Some((main, sub)),
        }
    }

    fn goes_before(&self, other: &Self) -> bool {
        self.quality > other.quality || (self.main != "*" && other.main == "*") || (self.sub != "*" && other.sub == "*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_accept_clauses_like_kube_apiserver() {
        for (header, want) in [
            ("", ""),
            ("*/*", "*/*"),
            ("*", "*/*"),
            ("*/", "*/*"),
            ("application/", ""),
            ("application", ""),
            ("a/b/c", ""),
            ("a/b/", "a/b"),
            (" a/b , c/d ", "a/b c/d"),
            ("a/b;q=0.1, c/d", "c/d a/b"),
            ("a/b;q=0.5,c/d;q=x", "a/b c/d"),
            ("a/b;q=0.5,c/d;q=0.5", "a/b c/d"),
            // A clause directly after a wildcard precedes it.
            ("*/*,a/b;q=0.1", "a/b */*"),
            ("a/*,a/b;q=0.1", "a/b a/*"),
            ("a/b;q=0.1,*/*", "*/* a/b"),
        ] {
            let got: Vec<String> = accept_clauses(header).iter().map(|c| format!("{}/{}", c.main, c.sub)).collect();
            assert_eq!(got.join(" "), want, "{header}");
        }
    }

    #[test]
    fn reads_the_last_valid_parameter() {
        for (header, want) in [
            ("a/b", None),
            ("a/b;as=Table", Some("Table")),
            ("a/b; as = Table ;q=1", Some("Table")),
            ("a/b;as=X;as=Table", Some("Table")),
            ("a/b;as", None),
            ("a/b;as=", None),
            ("a/b;as=X=Y", None),
            ("a/b;as=\"X\"", Some("\"X\"")),
        ] {
            assert_eq!(accept_clauses(header)[0].parameter("as"), want, "{header}");
        }
    }

    #[test]
    fn finds_the_encoding_of_content_types() {
        for (header, want) in [
            ("", Some(Encoding::Json)),
            ("application/json", Some(Encoding::Json)),
            ("Application/JSON; charset=utf-8", Some(Encoding::Json)),
            ("application/yaml;", Some(Encoding::Yaml)),
            ("application/vnd.kubernetes.protobuf", Some(Encoding::Protobuf)),
            ("application/json; x=\"a;b\"; y=z", Some(Encoding::Json)),
            ("application/json; charset", None),
            ("application/json;;charset=utf-8", None),
            ("text/plain", None),
            (" ", None),
        ] {
            assert_eq!(Encodings::STANDARD.of_content_type(header), want, "{header}");
        }
    }

    #[test]
    fn router_compares_bare_content_types() {
        for (header, want) in [
            ("", true),
            ("application/json;charset=utf-8", true),
            ("x/y, application/yaml", true),
            ("*/*", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            assert_eq!(content_type_names(header, &Encodings::STANDARD.media_types()), want, "{header}");
        }
    }

    #[test]
    fn router_compares_bare_types_with_one_wildcard() {
        for (header, want) in [
            ("", true),
            ("*/*", true),
            ("application/json;g=x", true),
            ("application/*", false),
            ("text/html", false),
            ("text/html, */*;q=0.1", true),
        ] {
            assert_eq!(accept_names(header, &Encodings::STANDARD.media_types()), want, "{header}");
        }
    }
}
