//! Which media type an answer has: the Accept header against what an endpoint offers, in two steps as the reference
//! has them (the router's check of bare types, then the handler's with parameters).

use binnacle_meta::Status;
use binnacle_request::Request;

/// How bytes are made of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn of(media_type: &str) -> Option<Self> {
        ALL.into_iter().find(|e| e.media_type() == media_type)
    }
}

/// In the order in which a wildcard picks them.
const ALL: [Encoding; 3] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf];
const STREAMING: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
/// More clauses than a sensible client sends are not looked at.
const MAX_CLAUSES: usize = 64;

/// What the client wants the objects turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    None,
    Table(MetaVersion),
    PartialMetadata(MetaVersion),
    PartialMetadataList(MetaVersion),
}

/// The version of `meta.k8s.io` in which tables and partial objects are asked for.
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

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub encoding: Encoding,
    pub transform: Transform,
    /// Indented JSON.
    pub pretty: bool,
}

impl Output {
    /// Answers that are not negotiated.
    pub const JSON: Self = Self { encoding: Encoding::Json, transform: Transform::None, pretty: false };
}

/// What an endpoint can answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A single object.
    Object,
    /// A list or a watch, whose router entries name the streams, too.
    Collection,
}

/// Agrees on the form of the answer, the router's check having passed. For watches, `watching` leaves out what has no stream form.
pub(crate) fn output(request: &Request, watching: bool) -> Result<Output, Status> {
    agree(request, watching, true)
}

/// As [`output`], for what may have no table: who asks for one is given the next alternative.
pub(crate) fn output_of(request: &Request, has_table: bool) -> Result<Output, Status> {
    agree(request, false, has_table)
}

fn agree(request: &Request, watching: bool, has_table: bool) -> Result<Output, Status> {
    let accept = request.header("accept").unwrap_or("");
    let pretty = pretty(request);
    if accept.is_empty() {
        return Ok(Output { pretty, ..Output::JSON });
    }
    for clause in &clauses(accept) {
        for encoding in ALL {
            if !clause.covers(encoding) {
                continue;
            }
            let Some((transform, stream)) = clause.options(encoding) else { continue };
            if (stream || watching) && encoding == Encoding::Yaml {
                continue;
            }
            if !has_table && matches!(transform, Transform::Table(_)) {
                continue;
            }
            return Ok(Output { encoding, transform, pretty: pretty || clause.parameter("pretty") == Some("1") });
        }
    }
    let offered = ALL.map(Encoding::media_type);
    Err(Status::not_acceptable(if watching { &STREAMING } else { &offered }))
}

/// The encoding of an answer that is not negotiated further (a Status): the first that the client accepts, else JSON.
pub(crate) fn encoding(accept: &str) -> Encoding {
    let known = |clause: &Clause<'_>| {
        ALL.into_iter().find(|encoding| clause.covers(*encoding) && clause.options(*encoding).is_some())
    };
    clauses(accept).iter().find_map(known).unwrap_or(Encoding::Json)
}

/// The alternatives of an Accept header, best first; equal qualities keep the client's order.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').take(MAX_CLAUSES).filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

/// The media type of a body: parameters are ignored, an absent one means JSON.
pub fn input(content_type: Option<&str>) -> Result<Encoding, Status> {
    let media_type = content_type.unwrap_or("").split(';').next().unwrap_or("").trim();
    if media_type.is_empty() {
        return Ok(Encoding::Json);
    }
    Encoding::of(&media_type.to_ascii_lowercase())
        .ok_or_else(|| Status::unsupported_media_type(&ALL.map(Encoding::media_type)))
}

/// The router compares bare types only, and knows no `application/*`.
pub(crate) fn router_accepts(accept: &str, offer: Offer) -> Result<(), Status> {
    if accept.is_empty() {
        return Ok(());
    }
    let known = accept.split(',').take(MAX_CLAUSES).any(|clause| {
        let bare = clause.split(';').next().unwrap_or("").trim();
        bare == "*/*" || Encoding::of(bare).is_some()
    });
    if known {
        return Ok(());
    }
    let mut offered: Vec<&str> = ALL.map(Encoding::media_type).to_vec();
    if offer == Offer::Collection {
        offered.extend(STREAMING);
    }
    Err(Status::router_not_acceptable(&offered))
}

/// `?pretty=`, or a client that a person sits in front of.
fn pretty(request: &Request) -> bool {
    if let Some(value) = request.query.get("pretty").filter(|v| !v.is_empty()) {
        return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = request.header("user-agent").unwrap_or("");
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
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
        let (main, sub) = match parts.next()?.split_once('/') {
            Some((main, sub)) => (main.trim(), sub.trim()),
            None => return None,
        };
        let mut clause = Self { main, sub, quality: 1.0, parameters: Vec::new() };
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
        let sub = &encoding.media_type()["application/".len()..];
        match (self.main, self.sub) {
            ("*", "*") | ("application", "*") => true,
            (main, own) => main == "application" && own == sub,
        }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// The transformation asked for and whether a stream is; `None` when the endpoint does not offer that.
    fn options(&self, encoding: Encoding) -> Option<(Transform, bool)> {
        let stream = match self.parameter("stream").filter(|s| !s.is_empty()) {
            None => false,
            Some("watch") => true,
            Some(_) => return None,
        };
        if self.parameter("sv").is_some_and(|version| !version.is_empty() && version != "v1") {
            return None;
        }
        let (kind, group, version) = (self.parameter("as"), self.parameter("g"), self.parameter("v"));
        if kind.is_none() && group.is_none() && version.is_none() {
            return Some((Transform::None, stream));
        }
        let version = match (group, version) {
            (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1beta1,
            _ => return None,
        };
        let transform = match kind {
            Some("Table") if encoding != Encoding::Protobuf => Transform::Table(version),
            Some("PartialObjectMetadata") => Transform::PartialMetadata(version),
            Some("PartialObjectMetadataList") => Transform::PartialMetadataList(version),
            _ => return None,
        };
        Some((transform, stream))
    }
}
