//! The requests that can be compared: reads, access reviews, and dry runs of writes.

use std::borrow::Cow;

use binnacle_request::{Query, Request, RequestInfo};
use http::Method;
use http::header::UPGRADE;

use crate::endpoint::{Outgoing, add_parameter};

/// The kind of a request, which determines how versions are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A get of an object or of a subresource.
    Object,
    List,
    /// An access review, or a review of the caller's own identity.
    Review,
    /// Discovery, OpenAPI and the version.
    Document,
    /// A write with `dryRun=All`.
    DryRun,
    /// The first events of a watch.
    Watch,
}

/// A request to send to both servers.
#[derive(Clone, Debug)]
pub struct Subject {
    pub kind: Kind,
    pub verb: String,
    /// `resource.group/subresource`; for documents, the first part of the path.
    pub resource: String,
    pub outgoing: Outgoing,
}

/// Subresources that open connections or stream, and those that return credentials.
const LEFT_OUT: [&str; 6] = ["attach", "exec", "log", "portforward", "proxy", "token"];
/// Reviews that contain no credentials. A TokenReview contains a token.
const REVIEWS: [(&str, &str); 5] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

impl Kind {
    /// Returns the kind of a request, or `None` if it is not compared. A request is compared only if repeating it
    /// changes nothing on the other server and sends it no credentials.
    #[must_use]
    pub fn of(method: &Method, info: &RequestInfo, query: &Query) -> Option<Self> {
        if !info.is_resource_request {
            return (*method == Method::GET && is_document(&info.path)).then_some(Self::Document);
        }
        if LEFT_OUT.contains(&info.subresource.as_str()) {
            return None;
        }
        match info.verb.as_str() {
            "get" if *method == Method::GET => Some(Self::Object),
            "list" if *method == Method::GET => Some(Self::List),
            "create" if REVIEWS.contains(&(info.api_group.as_str(), info.resource.as_str())) => Some(Self::Review),
            verb if WRITES.contains(&verb) && info.resource != "tokenreviews" => {
                let mut dry_run = query.get_all("dryRun").peekable();
                (dry_run.peek().is_some() && dry_run.all(|value| value == "All")).then_some(Self::DryRun)
            }
            _ => None,
        }
    }

    /// As [`Kind::of`], for a request that this server answers. A watch is compared if its client names a version, because
    /// the events after it are then the same on both servers.
    pub(crate) fn of_live(request: &Request) -> Option<Self> {
        let (info, query) = (&request.info, &request.query);
        let is_watch = info.is_resource_request && info.verb == "watch" && request.method == Method::GET;
        if !is_watch {
            return Self::of(&request.method, info, query);
        }
        let version: u64 = query.get("resourceVersion")?.parse().ok()?;
        let is_stream = !request.headers.contains_key(UPGRADE);
        (version > 0 && is_stream && !query.contains("sendInitialEvents")).then_some(Self::Watch)
    }
}

impl Subject {
    /// Creates the subject for a parsed request.
    #[must_use]
    pub fn new(kind: Kind, info: &RequestInfo, outgoing: Outgoing) -> Self {
        Self { kind, verb: info.verb.to_string(), resource: resource(info), outgoing }
    }

    /// Creates the subject for a method and a target. Returns `None` for a request that is not compared.
    #[must_use]
    pub fn parse(outgoing: Outgoing) -> Option<Self> {
        let method = Method::from_bytes(outgoing.method.as_bytes()).ok()?;
        let (path, query) = outgoing.target.split_once('?').unwrap_or((&outgoing.target, ""));
        let query = Query::parse(query);
        let path = binnacle_request::decode_path(path)?;
        let info = RequestInfo::parse(&method, &path, &query, &outgoing.target).ok()?;
        let kind = Kind::of(&method, &info, &query)?;
        Some(Self::new(kind, &info, outgoing))
    }

    /// As [`Subject::parse`], with watches.
    pub(crate) fn parse_replay(outgoing: Outgoing) -> Option<Self> {
        let (path, query) = outgoing.target.split_once('?').unwrap_or((&outgoing.target, ""));
        let path = binnacle_request::decode_path(path)?;
        let info = RequestInfo::parse(&Method::GET, &path, &Query::parse(query), &outgoing.target).ok()?;
        match outgoing.method == "GET" && info.is_resource_request && info.verb == "watch" {
            true => Some(Self::new(Kind::Watch, &info, outgoing)),
            false => Self::parse(outgoing),
        }
    }

    /// Creates the subject for any request, such as one that every server refuses.
    pub(crate) fn any(kind: Kind, outgoing: Outgoing) -> Self {
        let path = outgoing.target.split('?').next().unwrap_or_default();
        let method = Method::from_bytes(outgoing.method.as_bytes()).unwrap_or_default();
        let info = RequestInfo::parse(&method, path, &Query::default(), path).unwrap_or_default();
        Self::new(kind, &info, outgoing)
    }

    /// Creates the subject for a step of a case, which may be any request.
    pub(crate) fn of_step(method: &str, path: &str, data: Option<Vec<u8>>) -> Self {
        Self::any(Kind::DryRun, Outgoing { data, ..Outgoing::empty(method, path) })
    }

    /// Returns true if repeating the request changes nothing: the body of a deletion replaces the parameters of its query,
    /// `dryRun` included.
    pub(crate) fn is_harmless(&self) -> bool {
        let body = self.outgoing.data.as_deref().filter(|data| !data.is_empty());
        match (self.outgoing.method.as_str(), body) {
            ("DELETE", Some(data)) => is_dry_run(data),
            _ => true,
        }
    }

    /// Returns the request that reads the same state as a response with this resourceVersion. Pages of a list carry
    /// their version in the continue token.
    #[must_use]
    pub fn at_version(&self, version: &str) -> Outgoing {
        let mut outgoing = self.outgoing.clone();
        if self.kind != Kind::List || version.is_empty() || version == "0" {
            return outgoing;
        }
        // A list of any version may ignore its limit, which one of an exact version does not.
        if self.parameter("resourceVersion").as_deref() == Some("0") && self.parameter("limit").is_some() {
            return outgoing;
        }
        let (path, query) = self.outgoing.target.split_once('?').unwrap_or((&self.outgoing.target, ""));
        let name = |pair: &&str| pair.split('=').next().unwrap_or_default().to_owned();
        if query.split('&').any(|pair| name(&pair) == "continue" && pair.len() > "continue=".len()) {
            return outgoing;
        }
        let versions = ["resourceVersion", "resourceVersionMatch"];
        let others = query.split('&').filter(|pair| !pair.is_empty() && !versions.contains(&name(pair).as_str()));
        let others: Vec<&str> = others.collect();
        outgoing.target = if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) };
        add_parameter(&mut outgoing.target, "resourceVersion", version);
        add_parameter(&mut outgoing.target, "resourceVersionMatch", "Exact");
        outgoing
    }
}

impl Subject {
    /// Returns a parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let query = self.outgoing.target.split_once('?')?.1;
        Query::parse(query).get(name).map(|value| Cow::Owned(value.to_owned()))
    }
}

/// Returns true for the options of a deletion, in JSON, that is a dry run.
fn is_dry_run(options: &[u8]) -> bool {
    let options: serde_json::Value = serde_json::from_slice(options).unwrap_or_default();
    options["dryRun"] == serde_json::json!(["All"])
}

fn is_document(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "api" | "apis" | "openapi" | "version")
}

fn resource(info: &RequestInfo) -> String {
    if !info.is_resource_request {
        return format!("/{}", info.path.trim_start_matches('/').split('/').next().unwrap_or_default());
    }
    let mut name = info.resource.to_string();
    if !info.api_group.is_empty() {
        name += &format!(".{}", info.api_group);
    }
    if !info.subresource.is_empty() {
        name += &format!("/{}", info.subresource);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::{Kind, Subject};
    use crate::endpoint::Outgoing;

    fn subject(method: &str, target: &str) -> Option<Subject> {
        Subject::parse(Outgoing::empty(method, target))
    }

    #[test]
    fn selects_requests_that_change_nothing_and_carry_no_credentials() {
        let pods = "/api/v1/namespaces/n/pods";
        for (method, target, want) in [
            ("GET", format!("{pods}/p"), Some((Kind::Object, "get", "pods"))),
            ("HEAD", format!("{pods}/p"), None),
            ("GET", format!("{pods}/p/status"), Some((Kind::Object, "get", "pods/status"))),
            ("GET", format!("{pods}/p/log"), None),
            ("GET", format!("{pods}/p/exec?command=ls"), None),
            ("GET", format!("{pods}/p/proxy/x"), None),
            ("GET", format!("{pods}?limit=5"), Some((Kind::List, "list", "pods"))),
            ("GET", format!("{pods}?watch=1"), None),
            ("GET", "/apis/apps/v1/deployments".to_owned(), Some((Kind::List, "list", "deployments.apps"))),
            ("POST", pods.to_owned(), None),
            ("POST", format!("{pods}?dryRun=All"), Some((Kind::DryRun, "create", "pods"))),
            ("POST", format!("{pods}?dryRun=All&dryRun=x"), None),
            ("DELETE", format!("{pods}/p?dryRun=All"), Some((Kind::DryRun, "delete", "pods"))),
            ("POST", "/api/v1/namespaces/n/serviceaccounts/s/token?dryRun=All".to_owned(), None),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews?dryRun=All".to_owned(), None),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(),
                Some((Kind::Review, "create", "subjectaccessreviews.authorization.k8s.io")),
            ),
            ("GET", "/apis/apps/v1".to_owned(), Some((Kind::Document, "get", "/apis"))),
            ("GET", "/openapi/v3/apis/apps/v1?hash=x".to_owned(), Some((Kind::Document, "get", "/openapi"))),
            ("POST", "/apis/apps/v1".to_owned(), None),
            ("GET", "/metrics".to_owned(), None),
            ("GET", "/healthz".to_owned(), None),
        ] {
            let got = subject(method, &target);
            let got = got.as_ref().map(|subject| (subject.kind, subject.verb.as_str(), subject.resource.as_str()));
            assert_eq!(got, want, "{method} {target}");
        }
    }

    #[test]
    fn deletions_are_dry_runs_by_their_bodies() {
        for (method, body, want) in [
            ("DELETE", "", true),
            ("DELETE", r#"{"dryRun": ["All"]}"#, true),
            ("DELETE", "{}", false),
            ("DELETE", r#"{"dryRun": []}"#, false),
            ("DELETE", "dryRun: [All]", false),
            ("POST", "{}", true),
        ] {
            let mut subject = subject(method, "/api/v1/namespaces/n/pods?dryRun=All").unwrap();
            subject.outgoing.data = Some(body.into());
            assert_eq!(subject.is_harmless(), want, "{method} {body}");
        }
    }

    #[test]
    fn replays_include_watches() {
        let kind = |target: &str| Subject::parse_replay(Outgoing::empty("GET", target)).map(|subject| subject.kind);
        for (target, want) in [
            ("/api/v1/pods?watch=1&resourceVersion=7", Some(Kind::Watch)),
            ("/api/v1/watch/namespaces/n/pods/p", Some(Kind::Watch)),
            ("/api/v1/pods?watch=false", Some(Kind::List)),
            ("/api/v1/namespaces/n/pods/p/log?follow=1", None),
        ] {
            assert_eq!(kind(target), want, "{target}");
        }
    }

    #[test]
    fn pins_lists_to_the_version_of_a_response() {
        for (target, version, want) in [
            ("/api/v1/pods", "7", "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact"),
            ("/api/v1/pods?limit=5&resourceVersion=0", "7", "/api/v1/pods?limit=5&resourceVersion=0"),
            (
                "/api/v1/pods?limit=5&resourceVersion=6&labelSelector=a%3Db&resourceVersionMatch=NotOlderThan",
                "7",
                "/api/v1/pods?limit=5&labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=Exact",
            ),
            ("/api/v1/pods?continue=", "7", "/api/v1/pods?continue=&resourceVersion=7&resourceVersionMatch=Exact"),
            ("/api/v1/pods?limit=5&continue=abc", "7", "/api/v1/pods?limit=5&continue=abc"),
            ("/api/v1/pods", "", "/api/v1/pods"),
            ("/api/v1/pods", "0", "/api/v1/pods"),
            ("/api/v1/namespaces/n/pods/p", "7", "/api/v1/namespaces/n/pods/p"),
        ] {
            assert_eq!(subject("GET", target).unwrap().at_version(version).target, want);
        }
    }
}
