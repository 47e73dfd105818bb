//! The link that serves built-in resources: from a parsed path to the handler of a verb, and discovery beside them.

mod custom;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use binnacle_authz::Authorizer;
use binnacle_discovery::{Addresses, Discovery, DiscoveryMetrics};
use binnacle_features::Features;
use binnacle_meta::{Status, Text};
use binnacle_registry::{Catalog, Resource, Snapshot, Warnings};
use binnacle_request::{BoxFuture, Compressible, Link, Record, Request, RequestInfo, Response, User};
use binnacle_scheme::{Release, ResourceDescription, Served, ServedGroup, SubresourceRole, Verb, Verbs};
use http::Method;
use http::header::ACCEPT;

use crate::negotiate::{self, Encodings, Forms, Offer, Output};
use crate::verbs::watch::MIN_TIMEOUT;
use crate::verbs::{self, Answer, Call};
use crate::{discover, failure, respond};

/// A subresource, or a resource that is not stored, with a handler of its own.
pub trait UnstoredHandler: Send + Sync + 'static {
    fn handle(&self, call: UnstoredCall) -> BoxFuture<'_, Answer>;

    /// Whether clients can have the answer as a table; those that ask for one otherwise get the next best.
    fn has_table(&self) -> bool {
        false
    }

    /// Whether the answer is an object in the form that the client accepts; a stream of text, or what another server
    /// says, is not.
    fn negotiates(&self) -> bool {
        true
    }
}

/// Who may delete what cannot be read: answered by whoever knows the authorizers. The error is why not.
pub trait UnsafeDeletes: Send + Sync + 'static {
    fn permit<'a>(&'a self, info: &'a RequestInfo, user: &'a User) -> BoxFuture<'a, Result<(), String>>;
}

/// The request that a handler answers, with what was decided about it before.
pub struct UnstoredCall {
    pub request: Request,
    /// The stored resource that the subresource belongs to, if it is one of such.
    pub resource: Option<Arc<Resource>>,
    pub output: Output,
    pub warnings: Warnings,
    /// What the body may be encoded in.
    pub encodings: Encodings,
}

/// Group, version, plural and, of a subresource, its name.
pub type UnstoredKey = (Text, Text, Text, Text);

pub struct Api {
    catalog: Catalog,
    unstored: HashMap<UnstoredKey, Arc<dyn UnstoredHandler>>,
    addresses: Addresses,
    /// The documents of the snapshot that was last asked about.
    discovery: ArcSwapOption<Discovery>,
    discovery_metrics: Option<DiscoveryMetrics>,
    watch_timeout: Duration,
    authorizer: Arc<dyn Authorizer>,
    unsafe_deletes: Option<Arc<dyn UnsafeDeletes>>,
    encodings: Encodings,
}

impl Api {
    /// `authorizer` is asked again where a request turns into something else than it was allowed as.
    pub fn new(
        catalog: Catalog,
        unstored: HashMap<UnstoredKey, Arc<dyn UnstoredHandler>>,
        addresses: Addresses,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        let discovery = ArcSwapOption::empty();
        let encodings = Encodings::new(catalog.features().enabled("CBORServingAndStorage"));
        Self {
            catalog,
            unstored,
            addresses,
            discovery,
            discovery_metrics: None,
            watch_timeout: MIN_TIMEOUT,
            authorizer,
            unsafe_deletes: None,
            encodings,
        }
    }

    /// Counts aggregated discovery documents.
    #[must_use]
    pub fn discovery_metrics(self, metrics: DiscoveryMetrics) -> Self {
        Self { discovery_metrics: Some(metrics), ..self }
    }

    /// Who decides about deletes of what cannot be read; without it, nobody may.
    #[must_use]
    pub fn unsafe_deletes(self, judge: Arc<dyn UnsafeDeletes>) -> Self {
        Self { unsafe_deletes: Some(judge), ..self }
    }

    /// How long a watch lasts at least that names no timeout (`--min-request-timeout`).
    #[must_use]
    pub fn min_request_timeout(self, watch_timeout: Duration) -> Self {
        Self { watch_timeout, ..self }
    }

    /// Answers, and says of objects and lists that they may be compressed.
    async fn route(&self, request: Request) -> Response {
        let info = Arc::clone(&request.info);
        let streams = info.is_long_running() || ["log", "proxy"].contains(&info.subresource.as_str());
        let mut response = self.answer(request, &info).await;
        if !streams {
            response.extensions_mut().insert(Compressible);
        }
        response
    }

    async fn answer(&self, request: Request, info: &Arc<RequestInfo>) -> Response {
        let snapshot = self.catalog.snapshot();
        if let Some(answer) = self.discover(&request, snapshot.served()) {
            return answer;
        }
        if !info.is_resource_request {
            return failure::response(&request, &Status::path_not_found());
        }
        let (accept, pretty) = (request.headers.get(ACCEPT).cloned(), negotiate::pretty(&request));
        let warnings = Warnings::default();
        let response = match self.dispatch(request, info, &snapshot, &warnings).await {
            Ok(response) => response,
            // What is not built in falls through to the end of kube-apiserver's chain, which says no more than that.
            Err(status) if status == Status::path_not_found() && !is_built_in(&snapshot, info) => {
                failure::plain_not_found()
            }
            Err(status) => failure::of_accept(&status, accept.as_ref(), pretty, self.encodings_of(&status)),
        };
        respond::with_warnings(&warnings, response)
    }

    /// What a failure may be encoded in. The router's own refusals come before anything that knows CBOR.
    fn encodings_of(&self, status: &Status) -> Encodings {
        let of_router = [Status::path_not_found, Status::method_not_allowed, Status::router_unsupported_media_type];
        match self.encodings.has_cbor() && of_router.iter().any(|refusal| *status == refusal()) {
            true => Encodings::STANDARD,
            false => self.encodings,
        }
    }

    async fn dispatch(&self, request: Request, info: &RequestInfo, snapshot: &Snapshot, warnings: &Warnings) -> Answer {
        if info.verb == "proxy" {
            // There was a verb of that name in paths once.
            return Err(Status::path_not_found());
        }
        let described = snapshot.served().find(&info.api_group, &info.api_version, &info.resource);
        let description = &**described.ok_or_else(Status::path_not_found)?;
        request.record.note(|facts| facts.served = true);
        // `/watch/` in the path makes a watch of any GET.
        let old_watch = info.verb == "watch" && (!info.name.is_empty() || !request.query.flag("watch"));
        // A custom resource may be called namespaces, and lie in one.
        let has_namespace =
            !info.namespace.is_empty() && (info.resource != "namespaces" || is_namespace_in_another(info));
        let depth = info.parts.len();
        if has_namespace && !description.namespaced {
            return Err(Status::path_not_found());
        }
        // What cannot be watched has no such paths.
        if info.verb == "watch" && request.method != Method::GET && !description.verbs.contains(Verb::Watch) {
            return Err(Status::path_not_found());
        }
        let whole_cluster = description.namespaced && !has_namespace;
        let resource = snapshot.find(&info.api_group, &info.api_version, &info.resource).cloned();
        if let Some(resource) = resource.as_ref().filter(|resource| resource.collection.kind.custom.is_some())
            && info.verb != "watch"
        {
            if whole_cluster && info.verb != "list" {
                return Err(Status::path_not_found());
            }
            let call = self.call(request, Arc::clone(resource), info.subresource.clone(), warnings);
            return custom::custom(call, info).await;
        }
        match depth {
            1 => {
                let allowed =
                    |verb: &Verb| description.verbs.contains(*verb) && (!whole_cluster || ACROSS.contains(*verb));
                let verb = collection_verb(&request.method).filter(allowed);
                // A list that cannot be watched says so itself.
                let Some(verb) = verb.filter(|verb| is_allowed_as(info, *verb)) else {
                    return Err(Status::method_not_allowed());
                };
                match resource {
                    Some(resource) => {
                        collection(self.call(request, resource, Text::default(), warnings), verb, old_watch).await
                    }
                    None if verb == Verb::List && (old_watch || request.query.flag("watch")) => {
                        announce(description, self.catalog.features(), &request.record, warnings);
                        Err(Status::method_not_supported(&description.group_resource(), "watch"))
                    }
                    None => self.unstored(request, None, (info, description), "", warnings).await,
                }
            }
            _ if whole_cluster => Err(Status::path_not_found()),
            2 => {
                let Some(verb) = item_verb(&request.method).filter(|verb| description.verbs.contains(*verb)) else {
                    let any = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];
                    let known = any.iter().any(|verb| description.verbs.contains(*verb));
                    return Err(if known { Status::method_not_allowed() } else { Status::path_not_found() });
                };
                if !is_allowed_as(info, verb) {
                    return Err(Status::method_not_allowed());
                }
                match resource {
                    Some(resource) if old_watch => {
                        collection(self.call(request, resource, Text::default(), warnings), Verb::List, true).await
                    }
                    Some(resource) => item(self.call(request, resource, Text::default(), warnings), verb).await,
                    None => self.unstored(request, None, (info, description), "", warnings).await,
                }
            }
            _ => {
                let subresource = description.subresource(&info.subresource).ok_or_else(Status::path_not_found)?;
                let connects = subresource.role == SubresourceRole::Connect;
                // There are no watches of subresources, and what was allowed as one is nothing else.
                let has_paths = connects && subresource.name == "proxy";
                if depth > 3 && !has_paths || info.verb == "watch" {
                    return Err(Status::path_not_found());
                }
                let verb = match request.method {
                    Method::POST => Some(Verb::Create),
                    // A proxy takes every method, also those that have no verb.
                    Method::HEAD | Method::OPTIONS if connects && subresource.verbs.contains(Verb::Update) => {
                        Some(Verb::Get)
                    }
                    ref method => item_verb(method),
                };
                if !verb.is_some_and(|verb| subresource.verbs.contains(verb)) {
                    return Err(Status::method_not_allowed());
                }
                let verb = verb.unwrap_or(Verb::Get);
                match (resource, subresource.role) {
                    (Some(resource), SubresourceRole::Scale) => {
                        let call = self.call(request, resource, subresource.name.clone(), warnings);
                        routed(&call, verb, Offer::Object)?;
                        Box::pin(verbs::scale::handle(call, verb)).await
                    }
                    (Some(resource), SubresourceRole::Status | SubresourceRole::Update)
                        if !self.unstored.contains_key(&unstored_key(info, &subresource.name)) =>
                    {
                        item(self.call(request, resource, subresource.name.clone(), warnings), verb).await
                    }
                    (resource, _) => {
                        self.unstored(request, resource, (info, description), &subresource.name, warnings).await
                    }
                }
            }
        }
    }

    fn call(&self, request: Request, resource: Arc<Resource>, subresource: Text, warnings: &Warnings) -> Call {
        Call {
            request,
            resource,
            subresource,
            warnings: warnings.clone(),
            watch_timeout: self.watch_timeout,
            authorizer: self.authorizer.clone(),
            unsafe_deletes: self.unsafe_deletes.clone(),
            encodings: self.encodings,
        }
    }

    async fn unstored(
        &self,
        request: Request,
        resource: Option<Arc<Resource>>,
        (info, description): (&RequestInfo, &ResourceDescription),
        subresource: &str,
        warnings: &Warnings,
    ) -> Answer {
        let handler = self.unstored.get(&unstored_key(info, subresource)).ok_or_else(Status::path_not_found)?;
        let output = if handler.negotiates() {
            negotiate::router_accepts(request.header("accept").unwrap_or(""), Offer::Object, self.encodings)?;
            announce(description, self.catalog.features(), &request.record, warnings);
            let forms = Forms { table: handler.has_table(), protobuf: true, encodings: self.encodings };
            negotiate::output(&request, false, forms)?
        } else {
            announce(description, self.catalog.features(), &request.record, warnings);
            Output::JSON
        };
        let (warnings, encodings) = (warnings.clone(), self.encodings);
        handler.handle(UnstoredCall { request, resource, output, warnings, encodings }).await
    }

    /// The documents of what is served, which are kept until that changes.
    fn documents(&self, served: &Arc<Served>) -> Arc<Discovery> {
        if let Some(known) = &*self.discovery.load()
            && Arc::ptr_eq(known.served(), served)
        {
            return known.clone();
        }
        let documents = Discovery::new(served.clone(), self.addresses.clone());
        let documents = Arc::new(documents.counted(self.discovery_metrics.clone()));
        self.discovery.store(Some(documents.clone()));
        documents
    }

    /// Discovery documents; `None` for other paths.
    fn discover(&self, request: &Request, served: &Arc<Served>) -> Option<Response> {
        Discovery::claims(&request.info.path).then(|| discover::response(request, &self.documents(served)))?
    }
}

impl Link for Api {
    /// Everything below `/api`, and what is below `/apis` in a group that is served. Slashes in front of that are no help.
    fn claims(&self, info: &RequestInfo) -> bool {
        let mut segments = info.path.strip_prefix('/').unwrap_or_default().split('/');
        match segments.next() {
            Some("api") => true,
            Some("apis") => match segments.next() {
                None => true,
                Some("") => segments.next().is_none(),
                Some(group) => self.catalog.snapshot().served().group(group).is_some(),
            },
            _ => false,
        }
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(binnacle_request::offloading(Box::pin(self.route(request))))
    }

    /// Those of discovery, as they are now.
    fn paths(&self) -> Vec<String> {
        let mut paths = vec!["/api".to_owned(), "/apis".to_owned(), "/apis/".to_owned()];
        for group in self.catalog.snapshot().served().groups() {
            let root = if group.name.is_empty() { "/api".to_owned() } else { format!("/apis/{}", group.name) };
            paths.extend(group.versions.iter().map(|version| format!("{root}/{}", version.version)));
            paths.push(root);
        }
        paths
    }
}

/// True for groups of which a version is built in.
fn is_built_in(snapshot: &Snapshot, info: &RequestInfo) -> bool {
    info.api_group.is_empty() || snapshot.served().group(&info.api_group).is_none_or(ServedGroup::is_built_in)
}

/// What can be asked across all namespaces.
const ACROSS: Verbs = Verbs::of(&[Verb::List, Verb::Watch]);

fn unstored_key(info: &RequestInfo, subresource: &str) -> UnstoredKey {
    (info.api_group.clone(), info.api_version.clone(), info.resource.clone(), subresource.into())
}

fn collection_verb(method: &Method) -> Option<Verb> {
    match method.as_str() {
        "GET" => Some(Verb::List),
        "POST" => Some(Verb::Create),
        "DELETE" => Some(Verb::DeleteCollection),
        _ => None,
    }
}

fn item_verb(method: &Method) -> Option<Verb> {
    match method.as_str() {
        "GET" => Some(Verb::Get),
        "PUT" => Some(Verb::Update),
        "PATCH" => Some(Verb::Patch),
        "DELETE" => Some(Verb::Delete),
        _ => None,
    }
}

/// True for `/api/v1/namespaces/a/namespaces/b`: it would be authorized in the one namespace and be about the other,
/// if namespaces were in namespaces.
fn is_namespace_in_another(info: &RequestInfo) -> bool {
    let segments: Vec<&str> = info.path.trim_matches('/').split('/').collect();
    let before = segments.len().saturating_sub(info.parts.len());
    info.resource == "namespaces" && segments[..before].contains(&"namespaces")
}

/// True when the request was allowed as what it is going to do. `/watch/` in the path makes a watch of any method for
/// the authorizers: it must not get to a handler that writes.
fn is_allowed_as(info: &RequestInfo, verb: Verb) -> bool {
    match info.verb.as_str() {
        "create" => verb == Verb::Create,
        "update" => verb == Verb::Update,
        "patch" => verb == Verb::Patch,
        "delete" => verb == Verb::Delete,
        "deletecollection" => verb == Verb::DeleteCollection,
        "get" => verb == Verb::Get,
        "list" => verb == Verb::List,
        // A watch of a single object is routed like a `get`.
        "watch" => matches!(verb, Verb::List | Verb::Get),
        _ => false,
    }
}

/// A request's future is as large as its largest verb would be: all but the smallest are kept apart.
async fn collection(call: Call, verb: Verb, old_watch: bool) -> Answer {
    let offer = if verb == Verb::Create { Offer::Object } else { Offer::Collection };
    routed(&call, verb, offer)?;
    collection_handler(call, verb, old_watch).await
}

async fn collection_handler(call: Call, verb: Verb, old_watch: bool) -> Answer {
    match verb {
        Verb::Create => Box::pin(verbs::create::handle(call)).await,
        Verb::DeleteCollection => Box::pin(verbs::delete::handle_collection(call)).await,
        _ => Box::pin(verbs::list::handle(call, old_watch)).await,
    }
}

async fn item(call: Call, verb: Verb) -> Answer {
    routed(&call, verb, Offer::Object)?;
    item_handler(call, verb).await
}

async fn item_handler(call: Call, verb: Verb) -> Answer {
    match verb {
        Verb::Update => Box::pin(verbs::update::handle(call)).await,
        Verb::Patch => Box::pin(verbs::patch::handle(call)).await,
        Verb::Delete => Box::pin(verbs::delete::handle(call)).await,
        _ => verbs::get::handle(call).await,
    }
}

/// What kube-apiserver's router refuses before any handler runs; who gets past it is told of deprecations.
fn routed(call: &Call, verb: Verb, offer: Offer) -> Result<(), Status> {
    let (request, resource) = (&call.request, &call.resource);
    // No router stands before custom resources.
    if resource.collection.kind.custom.is_none() {
        if verb == Verb::Patch {
            verbs::patch::patch_type(call)?;
        }
        negotiate::router_accepts(request.header("accept").unwrap_or(""), offer, call.encodings)?;
    }
    announce(&resource.description, &resource.collection.features, &request.record, &call.warnings);
    Ok(())
}

/// Warns of deprecated resources, and notes for audit and metrics that one was asked for.
fn announce(description: &ResourceDescription, features: &Features, record: &Record, warnings: &Warnings) {
    let lifecycle = &description.lifecycle;
    let emulated = features.emulated();
    if lifecycle.is_deprecated_in(Release { major: emulated.major, minor: emulated.minor }) {
        let api_version = description.group_version().to_string();
        lifecycle.warning(&api_version, &description.kind).into_iter().for_each(|text| warnings.add(text));
        let removed = lifecycle.removed.map(|release| format!("{}.{}", release.major, release.minor));
        let removed = Text::from(removed.unwrap_or_default());
        record.annotate("k8s.io/deprecated", "true");
        if !removed.is_empty() {
            record.annotate("k8s.io/removed-release", &removed);
        }
        record.note(|facts| facts.deprecated = Some(removed));
    }
    if let Some(text) = &description.deprecation {
        warnings.add(text.to_string());
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;

    use super::*;

    fn info(method: &Method, path: &str) -> RequestInfo {
        RequestInfo::parse(method, path, &Query::default(), path).unwrap()
    }

    #[test]
    fn namespaces_in_namespaces() {
        for (path, nested) in [
            ("/api/v1/namespaces", false),
            ("/api/v1/namespaces/a", false),
            ("/api/v1/namespaces/namespaces", false),
            ("/api/v1/namespaces/namespaces/status", false),
            ("/api/v1/namespaces/a/finalize", false),
            ("/api/v1/watch/namespaces/a", false),
            ("/api/v1/namespaces/a/pods/namespaces", false),
            ("/api/v1/namespaces/a/namespaces", true),
            ("/api/v1/namespaces/a/namespaces/", true),
            ("/api/v1/namespaces/a/namespaces/a", true),
            ("/api/v1/namespaces/a/namespaces/b", true),
            ("/api/v1/namespaces/a/namespaces/b/finalize", true),
            ("/api/v1/watch/namespaces/a/namespaces/b", true),
        ] {
            assert_eq!(is_namespace_in_another(&info(&Method::GET, path)), nested, "{path}");
        }
    }

    #[test]
    fn a_watch_is_no_other_verb() {
        let all =
            [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection, Verb::List, Verb::Get];
        for (method, path, want) in [
            (Method::POST, "/api/v1/watch/namespaces/a/pods", &[Verb::List, Verb::Get][..]),
            (Method::DELETE, "/api/v1/watch/namespaces/a/pods", &[Verb::List, Verb::Get]),
            (Method::POST, "/api/v1/namespaces/a/pods", &[Verb::Create]),
            (Method::DELETE, "/api/v1/namespaces/a/pods", &[Verb::DeleteCollection]),
            (Method::DELETE, "/api/v1/namespaces/a/pods/p", &[Verb::Delete]),
            (Method::PUT, "/api/v1/namespaces/a/pods/p", &[Verb::Update]),
            (Method::GET, "/api/v1/namespaces/a/pods/p", &[Verb::Get]),
            (Method::GET, "/api/v1/namespaces/a/pods", &[Verb::List]),
        ] {
            let info = info(&method, path);
            let allowed: Vec<Verb> = all.into_iter().filter(|verb| is_allowed_as(&info, *verb)).collect();
            assert_eq!(allowed, want, "{method} {path}");
        }
    }
}
