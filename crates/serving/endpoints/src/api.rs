//! The handler of resources: it routes requests to the handlers of verbs, and serves discovery.

mod custom_resource;
mod route;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use binnacle_authz::Authorizer;
use binnacle_discovery::{Addresses, Discovery, DiscoveryMetrics};
use binnacle_features::Features;
use binnacle_meta::{Status, Text};
use binnacle_registry::{Catalog, Resource, Snapshot, Warnings};
use binnacle_request::{BoxFuture, Compressible, Handler, Record, Request, RequestInfo, Response};
use binnacle_scheme::{Release, ResourceDescription, ServedGroup, ServedResources, Verb};
use http::header::ACCEPT;

use self::route::{ResourceRequest, Route, Target};
use crate::negotiate::{self, Encodings, Offer, OfferedOutputs, Output};
use crate::verbs::delete::UnsafeDeleteAuthorizer;
use crate::verbs::watch::MIN_TIMEOUT;
use crate::verbs::{self, Call, HandlerResult};
use crate::{discover, failure, respond};

/// The handler of a subresource, or of a resource that is not stored.
pub trait SubresourceHandler: Send + Sync + 'static {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult>;

    /// Returns true if the response can be a table; otherwise the next alternative that the client accepts is used.
    fn has_table(&self) -> bool {
        false
    }

    /// Returns true if the response is an object in the negotiated output; false for text streams and proxied
    /// responses.
    fn negotiates(&self) -> bool {
        true
    }
}

/// A call of a subresource handler, with its negotiated output.
pub struct SubresourceCall {
    pub request: Request,
    /// The stored resource of a subresource, if there is one.
    pub resource: Option<Arc<Resource>>,
    pub output: Output,
    pub warnings: Warnings,
    /// The accepted encodings of the body.
    pub encodings: Encodings,
}

/// Group, version, plural, and the name of the subresource if there is one.
pub type SubresourceKey = (Text, Text, Text, Text);

pub struct Api {
    catalog: Catalog,
    subresources: HashMap<SubresourceKey, Arc<dyn SubresourceHandler>>,
    addresses: Addresses,
    /// The discovery documents of the last snapshot.
    discovery: ArcSwapOption<Discovery>,
    discovery_metrics: Option<DiscoveryMetrics>,
    watch_timeout: Duration,
    authorizer: Arc<dyn Authorizer>,
    unsafe_deletes: Option<Arc<dyn UnsafeDeleteAuthorizer>>,
    encodings: Encodings,
}

impl Api {
    /// Returns a handler without discovery metrics. `authorizer` authorizes requests whose verb changes, such as an
    /// update that creates.
    pub fn new(
        catalog: Catalog,
        subresources: HashMap<SubresourceKey, Arc<dyn SubresourceHandler>>,
        addresses: Addresses,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        let discovery = ArcSwapOption::empty();
        let encodings = Encodings::new(catalog.features().enabled("CBORServingAndStorage"));
        Self {
            catalog,
            subresources,
            addresses,
            discovery,
            discovery_metrics: None,
            watch_timeout: MIN_TIMEOUT,
            authorizer,
            unsafe_deletes: None,
            encodings,
        }
    }

    /// Sets the metrics of aggregated discovery.
    #[must_use]
    pub fn discovery_metrics(self, metrics: DiscoveryMetrics) -> Self {
        Self { discovery_metrics: Some(metrics), ..self }
    }

    /// Sets the authorizer for deletes of objects that cannot be decoded; without it, they are rejected.
    #[must_use]
    pub fn unsafe_deletes(self, authorizer: Arc<dyn UnsafeDeleteAuthorizer>) -> Self {
        Self { unsafe_deletes: Some(authorizer), ..self }
    }

    /// Sets the minimum duration of a watch without a timeout (`--min-request-timeout`).
    #[must_use]
    pub fn min_request_timeout(self, watch_timeout: Duration) -> Self {
        Self { watch_timeout, ..self }
    }

    /// Handles a request, and marks objects and lists as compressible.
    async fn route(&self, request: Request) -> Response {
        let info = Arc::clone(&request.info);
        let is_stream = info.is_long_running() || ["log", "proxy"].contains(&info.subresource.as_str());
        let mut response = self.respond(request, &info).await;
        if !is_stream {
            response.extensions_mut().insert(Compressible);
        }
        response
    }

    async fn respond(&self, request: Request, info: &Arc<RequestInfo>) -> Response {
        let snapshot = self.catalog.snapshot();
        if let Some(response) = self.discover(&request, snapshot.served()) {
            return response;
        }
        if !info.is_resource_request {
            return failure::response(&request, &Status::path_not_found());
        }
        let (accept, pretty) = (request.headers.get(ACCEPT).cloned(), negotiate::wants_pretty(&request));
        let warnings = Warnings::default();
        let record = request.record.clone();
        let result = self.dispatch(request, info, &snapshot, &warnings).await;
        if result.as_ref().is_err_and(is_router_error) {
            // No handler has this path or method. kube-apiserver counts only requests that its router matches, so that
            // clients cannot create arbitrary label values, such as names of subresources.
            record.note(|facts| facts.served = false);
        }
        let response = match result {
            Ok(response) => response,
            // Paths of groups that are not built-in get the plain text from the end of kube-apiserver's handler chain.
            Err(status) if status == Status::path_not_found() && !is_built_in(&snapshot, info) => {
                failure::plain_not_found()
            }
            Err(status) => failure::of_accept(&status, accept.as_ref(), pretty, self.encodings_of(&status)),
        };
        respond::with_warnings(&warnings, response)
    }

    /// Returns the encodings that a failure may have. CBOR does not apply to errors of the router.
    fn encodings_of(&self, status: &Status) -> Encodings {
        match self.encodings.has_cbor() && is_router_error(status) {
            true => Encodings::STANDARD,
            false => self.encodings,
        }
    }

    async fn dispatch(
        &self,
        request: Request,
        info: &RequestInfo,
        snapshot: &Snapshot,
        warnings: &Warnings,
    ) -> HandlerResult {
        if info.verb == "proxy" {
            // Paths with this verb are no longer supported.
            return Err(Status::path_not_found());
        }
        let description = snapshot.served().find(&info.api_group, &info.api_version, &info.resource);
        let description = &**description.ok_or_else(Status::path_not_found)?;
        let resource = snapshot.find(&info.api_group, &info.api_version, &info.resource).cloned();
        let is_custom = resource.as_ref().is_some_and(|resource| resource.collection.kind.custom.is_some());
        request.record.note(|facts| (facts.served, facts.routed) = (true, !is_custom));
        let resource_request = ResourceRequest { info, method: &request.method };
        let target = Target { description, is_stored: resource.is_some(), is_custom };
        let route = Route::of(resource_request, target, &|subresource| {
            self.subresources.contains_key(&subresource_key(info, subresource))
        })?;
        match (route, resource) {
            (Route::Custom, Some(resource)) => {
                let call = self.call(request, resource, info.subresource.clone(), warnings);
                custom_resource::handle(call, info).await
            }
            (Route::Collection { verb, watch_path }, Some(resource)) => {
                handle_collection(self.call(request, resource, Text::default(), warnings), verb, watch_path).await
            }
            (Route::Item { verb, subresource }, Some(resource)) => {
                handle_item(self.call(request, resource, subresource, warnings), verb).await
            }
            (Route::Scale { verb, subresource }, Some(resource)) => {
                let call = self.call(request, resource, subresource, warnings);
                check_router_rules(&call, verb, Offer::Object)?;
                Box::pin(verbs::scale::handle(call, verb)).await
            }
            (Route::Subresource { subresource }, resource) => {
                self.handle_subresource(request, resource, (info, description), &subresource, warnings).await
            }
            (_, None) => Err(Status::path_not_found()),
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

    async fn handle_subresource(
        &self,
        request: Request,
        resource: Option<Arc<Resource>>,
        (info, description): (&RequestInfo, &ResourceDescription),
        subresource: &str,
        warnings: &Warnings,
    ) -> HandlerResult {
        let handler = self.subresources.get(&subresource_key(info, subresource)).ok_or_else(Status::path_not_found)?;
        let output = if handler.negotiates() {
            let is_item = !subresource.is_empty() || !matches!(info.verb.as_str(), "list" | "watch");
            let offer = if is_item { Offer::Object } else { Offer::Collection };
            negotiate::router_accepts(request.header("accept").unwrap_or(""), offer, self.encodings)?;
            warn_of_deprecation(description, self.catalog.features(), &request.record, warnings);
            let offered_outputs =
                OfferedOutputs { table: handler.has_table(), protobuf: true, encodings: self.encodings };
            negotiate::output(&request, false, offered_outputs)?
        } else {
            warn_of_deprecation(description, self.catalog.features(), &request.record, warnings);
            Output::JSON
        };
        let (warnings, encodings) = (warnings.clone(), self.encodings);
        handler.handle(SubresourceCall { request, resource, output, warnings, encodings }).await
    }

    /// Returns the discovery documents, which are cached until the snapshot changes.
    fn discovery_documents(&self, served: &Arc<ServedResources>) -> Arc<Discovery> {
        if let Some(cached) = &*self.discovery.load()
            && Arc::ptr_eq(cached.served(), served)
        {
            return cached.clone();
        }
        let documents = Discovery::new(served.clone(), self.addresses.clone());
        let documents = Arc::new(documents.with_metrics(self.discovery_metrics.clone()));
        self.discovery.store(Some(documents.clone()));
        documents
    }

    /// Returns a discovery document; `None` for other paths.
    fn discover(&self, request: &Request, served: &Arc<ServedResources>) -> Option<Response> {
        Discovery::matches(&request.info.path)
            .then(|| discover::response(request, &self.discovery_documents(served)))?
    }
}

impl Handler for Api {
    /// Matches all paths below `/api`, and those below `/apis` in a served group. Paths with repeated leading slashes
    /// do not match.
    fn matches(&self, info: &RequestInfo) -> bool {
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
        Box::pin(self.route(request))
    }

    /// Returns the current discovery paths.
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

/// Returns true for errors about paths, methods and media types without a handler.
fn is_router_error(status: &Status) -> bool {
    let router_errors = [Status::path_not_found, Status::method_not_allowed, Status::router_unsupported_media_type];
    router_errors.iter().any(|error| *status == error())
}

/// Returns true for groups with a built-in version.
fn is_built_in(snapshot: &Snapshot, info: &RequestInfo) -> bool {
    info.api_group.is_empty() || snapshot.served().group(&info.api_group).is_none_or(ServedGroup::is_built_in)
}

fn subresource_key(info: &RequestInfo, subresource: &str) -> SubresourceKey {
    (info.api_group.clone(), info.api_version.clone(), info.resource.clone(), subresource.into())
}

/// Handles a request for a collection. Large futures are boxed, because the future of a request is as large as that of
/// its largest verb.
async fn handle_collection(call: Call, verb: Verb, watch_path: bool) -> HandlerResult {
    let offer = if verb == Verb::Create { Offer::Object } else { Offer::Collection };
    check_router_rules(&call, verb, offer)?;
    call_collection_verb(call, verb, watch_path).await
}

async fn call_collection_verb(call: Call, verb: Verb, watch_path: bool) -> HandlerResult {
    match verb {
        Verb::Create => Box::pin(verbs::create::handle(call)).await,
        Verb::DeleteCollection => Box::pin(verbs::delete::handle_collection(call)).await,
        _ => Box::pin(verbs::list::handle(call, watch_path)).await,
    }
}

async fn handle_item(call: Call, verb: Verb) -> HandlerResult {
    check_router_rules(&call, verb, Offer::Object)?;
    if call.request.info.name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    call_item_verb(call, verb).await
}

async fn call_item_verb(call: Call, verb: Verb) -> HandlerResult {
    match verb {
        Verb::Update => Box::pin(verbs::update::handle(call)).await,
        Verb::Patch => Box::pin(verbs::patch::handle(call)).await,
        Verb::Delete => Box::pin(verbs::delete::handle(call)).await,
        _ => verbs::get::handle(call).await,
    }
}

/// Rejects requests that kube-apiserver's router would reject before the handler; adds deprecation warnings to others.
fn check_router_rules(call: &Call, verb: Verb, offer: Offer) -> Result<(), Status> {
    let (request, resource) = (&call.request, &call.resource);
    // Custom resources have no router.
    if resource.collection.kind.custom.is_none() {
        if verb == Verb::Patch {
            verbs::patch::patch_type(call)?;
        }
        negotiate::router_accepts(request.header("accept").unwrap_or(""), offer, call.encodings)?;
    }
    warn_of_deprecation(&resource.description, &resource.collection.features, &request.record, &call.warnings);
    Ok(())
}

/// Adds the warning for a deprecated resource, and records its use for audit and metrics.
fn warn_of_deprecation(description: &ResourceDescription, features: &Features, record: &Record, warnings: &Warnings) {
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
