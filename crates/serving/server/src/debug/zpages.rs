//! `/statusz` and `/flagz`: the version, start time and flags of the server, as text or as an object.

use std::time::{Duration, SystemTime};

use binnacle_features::Version;
use binnacle_meta::{Status, Time};
use binnacle_request::{Body, BoxFuture, Handler, Preferences, Request, RequestInfo, Response, pretty};
use binnacle_schema::{Object, Value, cbor, json, yaml};
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::FailureWriter;
use crate::process::start_time;
use crate::response::plain_text;
use crate::version::{KUBERNETES_VERSION, TOOLCHAIN};

const GROUP: &str = "config.k8s.io";
const CURRENT: &str = "v1beta1";
const DEPRECATED: &str = "v1alpha1";
/// In the order of error messages.
const PRODUCED: [&str; 4] = ["application/json", "application/yaml", "text/plain", CBOR];
const CBOR: &str = "application/cbor";
const HEADER: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees \
                      and is for debugging purposes only.\n";
const COMPONENT: &str = "apiserver";

/// Serves the pages whose feature gates are on.
pub struct ZPagesHandler {
    /// Writes failures, including CBOR if it is offered.
    pub failure: FailureWriter,
    /// True if CBOR is offered.
    pub cbor: bool,
    /// The emulated version of Kubernetes.
    pub emulated: Version,
    /// The names and values of all flags.
    pub flags: Vec<(String, String)>,
    /// Paths that `/statusz` lists in addition to those of every server.
    pub more_paths: Vec<&'static str>,
    pub statusz: bool,
    pub flagz: bool,
}

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Statusz,
    Flagz,
}

/// The format of a response.
#[derive(Debug, PartialEq, Eq)]
enum Format {
    Text,
    Object { media_type: &'static str, version: &'static str },
}

impl ZPagesHandler {
    fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/statusz" if self.statusz => Some(Page::Statusz),
            "/flagz" if self.flagz => Some(Page::Flagz),
            _ => None,
        }
    }

    fn listed_paths(&self) -> Vec<&'static str> {
        let mut paths = vec!["/healthz", "/livez", "/metrics", "/readyz", "/version"];
        paths.extend(self.statusz.then_some("/statusz"));
        paths.extend(self.flagz.then_some("/flagz"));
        paths.extend(&self.more_paths);
        paths.sort_unstable();
        paths
    }

    fn text(&self, page: Page) -> String {
        let mut text = format!("\n{COMPONENT} {}\n{HEADER}", page.name());
        match page {
            Page::Flagz => self.flags.iter().for_each(|(name, value)| text.push_str(&format!("{name}={value}\n"))),
            Page::Statusz => {
                let start = process_start();
                let up = uptime(start).as_secs();
                let start_text =
                    i64::try_from(start.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
                let start_text =
                    start_text.map(|at| at.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y").to_string());
                let emulated = self.emulated;
                text.push_str(&format!(
                    "\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo version: {TOOLCHAIN}\nBinary version: {}\nEmulation \
                     version: {emulated}\nPaths: {}\n",
                    start_text.unwrap_or_default(),
                    up / 3600,
                    up / 60 % 60,
                    up % 60,
                    KUBERNETES_VERSION.trim_start_matches('v'),
                    self.listed_paths().join(" ")
                ));
            }
        }
        text
    }

    fn object(&self, page: Page, version: &str) -> Value {
        let text = |text: &str| Value::from(text);
        let mut object = Object::new();
        object.insert("kind", text(page.kind()));
        object.insert("apiVersion", text(&format!("{GROUP}/{version}")));
        let mut metadata = Object::new();
        metadata.insert("name", text(COMPONENT));
        object.insert("metadata", Value::Object(metadata));
        match page {
            Page::Flagz => {
                let mut flags = Object::new();
                self.flags.iter().for_each(|(name, value)| drop(flags.insert(name.as_str(), text(value))));
                object.insert("flags", Value::Object(flags));
            }
            Page::Statusz => {
                let start = process_start();
                let seconds = i64::try_from(start.as_secs()).unwrap_or(i64::MAX);
                let up = i64::try_from(uptime(start).as_secs()).unwrap_or(i64::MAX);
                object.insert("startTime", text(&Time::from_unix(seconds, 0).to_string()));
                object.insert("uptimeSeconds", up);
                object.insert("goVersion", text(TOOLCHAIN));
                object.insert("binaryVersion", text(KUBERNETES_VERSION.trim_start_matches('v')));
                object.insert("emulationVersion", text(&self.emulated.to_string()));
                object.insert("paths", Value::List(self.listed_paths().into_iter().map(text).collect()));
            }
        }
        Value::Object(object)
    }

    fn respond(&self, page: Page, request: &mut Request) -> Response {
        request.record.note(|facts| facts.served = true);
        let accept = request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let produced = &PRODUCED[..if self.cbor { 4 } else { 3 }];
        match negotiate(accept, page, produced) {
            Some(Format::Text) => plain_text(self.text(page)),
            Some(Format::Object { media_type, version }) => {
                let object = self.object(page, version);
                let is_pretty = pretty(&request.headers, &request.query);
                let mut response = Response::new(encode_body(&object, media_type, is_pretty));
                let kind = format!("{media_type};g={GROUP};v={version};as={}", page.kind());
                let headers = response.headers_mut();
                headers
                    .insert(CONTENT_TYPE, HeaderValue::try_from(kind).unwrap_or(HeaderValue::from_static(media_type)));
                if version == DEPRECATED {
                    let warning = format!(
                        "299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"",
                        page.name()
                    );
                    headers.extend(HeaderValue::try_from(warning).ok().map(|warning| (WARNING, warning)));
                }
                response
            }
            None => {
                let mut preferences = Preferences::of(&request.headers, &request.query);
                preferences.accept = HeaderValue::try_from(without_protobuf(accept)).ok();
                (self.failure)(&Status::not_acceptable(produced), &preferences)
            }
        }
    }
}

impl Handler for ZPagesHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        self.page(&info.path).is_some()
    }

    fn handle(&self, mut request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            // The handler only receives requests for these paths.
            let page = self.page(&request.info.path).unwrap_or(Page::Statusz);
            self.respond(page, &mut request)
        })
    }

    fn paths(&self) -> Vec<String> {
        ["/flagz", "/statusz"].into_iter().filter(|path| self.page(path).is_some()).map(str::to_owned).collect()
    }
}

impl Page {
    fn name(self) -> &'static str {
        match self {
            Self::Statusz => "statusz",
            Self::Flagz => "flagz",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Statusz => "Statusz",
            Self::Flagz => "Flagz",
        }
    }
}

/// Removes protobuf from an Accept header, because these pages do not support it.
fn without_protobuf(accept: &str) -> String {
    let is_protobuf = |clause: &&str| clause.trim().starts_with("application/vnd.kubernetes.protobuf");
    let others: Vec<&str> = accept.split(',').filter(|clause| !is_protobuf(clause)).collect();
    // An empty header would accept any type.
    if others.is_empty() { "text/plain".to_owned() } else { others.join(",") }
}

fn encode_body(object: &Value, media_type: &str, is_pretty: bool) -> Body {
    if media_type == CBOR {
        let mut bytes = Vec::new();
        cbor::write(object, None, &mut bytes);
        return Body::from(bytes);
    }
    if media_type == "application/yaml" {
        return Body::from(yaml::to_string(object));
    }
    let mut text = Vec::new();
    if is_pretty {
        json::write_pretty(object, &mut text);
    } else {
        json::write(object, &mut text);
        text.push(b'\n');
    }
    Body::from(text)
}

/// Returns the format of the response: an object if the client names its kind, otherwise text.
fn negotiate(accept: &str, page: Page, produced: &[&'static str]) -> Option<Format> {
    if accept.trim().is_empty() {
        return Some(Format::Text);
    }
    let mut clauses: Vec<Clause> = accept.split(',').filter_map(Clause::parse).collect();
    // The highest quality first, with a stable sort.
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    clauses.iter().find_map(|clause| produced.iter().find_map(|media_type| clause.form(media_type, page)))
}

/// A clause of an Accept header.
struct Clause<'a> {
    media_type: &'a str,
    quality: f32,
    kind: Option<&'a str>,
    group: Option<&'a str>,
    version: Option<&'a str>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().filter(|media_type| !media_type.is_empty())?;
        let mut clause = Self { media_type, quality: 1.0, kind: None, group: None, version: None };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                "as" => clause.kind = Some(value),
                "g" => clause.group = Some(value),
                "v" => clause.version = Some(value),
                _ => {}
            }
        }
        Some(clause)
    }

    fn form(&self, media_type: &'static str, page: Page) -> Option<Format> {
        let (main, _) = media_type.split_once('/')?;
        let matches = self.media_type == media_type
            || self.media_type == "*/*"
            || self.media_type.strip_suffix("/*").is_some_and(|accepted| accepted == main);
        let names_kind = self.kind.is_some() || self.group.is_some() || self.version.is_some();
        match (matches, media_type) {
            (false, _) => None,
            (true, "text/plain") => (!names_kind).then_some(Format::Text),
            (true, media_type) => {
                let version = [CURRENT, DEPRECATED].into_iter().find(|version| self.version == Some(version))?;
                let is_ours = self.kind == Some(page.kind()) && self.group == Some(GROUP);
                is_ours.then_some(Format::Object { media_type, version })
            }
        }
    }
}

/// Returns the start time of the process since the Unix epoch.
fn process_start() -> Duration {
    Duration::from_secs_f64(start_time().filter(|seconds| seconds.is_finite() && *seconds > 0.0).unwrap_or_default())
}

fn uptime(start: Duration) -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiates_format_by_accept_header() {
        let object = |media_type, version| Some(Format::Object { media_type, version });
        for (accept, want) in [
            ("", Some(Format::Text)),
            ("*/*", Some(Format::Text)),
            ("text/plain", Some(Format::Text)),
            ("application/json, */*", Some(Format::Text)),
            ("application/json", None),
            ("text/html", None),
            ("application/json;as=Statusz;v=v1beta1;g=config.k8s.io", object("application/json", CURRENT)),
            ("application/yaml; as=Statusz; v=v1alpha1; g=config.k8s.io", object("application/yaml", DEPRECATED)),
            ("application/json;as=Flagz;v=v1beta1;g=config.k8s.io", None),
            ("application/json;as=Statusz;v=v1;g=config.k8s.io", None),
            (
                "text/plain;q=0.5, application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
                object("application/json", CURRENT),
            ),
            ("text/plain;as=Statusz", None),
            ("application/cbor", None),
            ("application/cbor;as=Statusz;v=v1beta1;g=config.k8s.io", object(CBOR, CURRENT)),
            // CBOR comes last.
            ("*/*;as=Statusz;v=v1beta1;g=config.k8s.io", object("application/json", CURRENT)),
        ] {
            assert_eq!(negotiate(accept, Page::Statusz, &PRODUCED), want, "{accept}");
        }
        let cbor = "application/cbor;as=Statusz;v=v1beta1;g=config.k8s.io";
        assert_eq!(negotiate(cbor, Page::Statusz, &PRODUCED[..3]), None);
    }

    #[test]
    fn failures_are_never_protobuf() {
        for (accept, want) in [
            ("application/vnd.kubernetes.protobuf", "text/plain"),
            ("application/vnd.kubernetes.protobuf;q=1, application/yaml", " application/yaml"),
            ("text/html,application/cbor", "text/html,application/cbor"),
        ] {
            assert_eq!(without_protobuf(accept), want, "{accept}");
        }
    }
}
