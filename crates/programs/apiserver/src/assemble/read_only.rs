//! Refuses requests that would change objects, on a server that only reads its store.

use binnacle_endpoints::failure_response;
use binnacle_meta::Status;
use binnacle_request::{BoxFuture, Interceptor, Preferences, Request, RequestInfo, Response};

/// The groups whose objects are questions: creating one stores nothing.
const REVIEW_GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];
/// The verbs that change nothing.
const READS: [&str; 3] = ["get", "list", "watch"];
/// The subresources that change something whatever the verb is: they run commands and open ports in Pods.
const SESSIONS: [&str; 3] = ["attach", "exec", "portforward"];

/// Takes all requests for resources but reads and access reviews, aggregated APIs included.
pub(super) struct ReadOnlyGate;

impl Interceptor for ReadOnlyGate {
    fn intercepts(&self, request: &Request) -> bool {
        !is_read(&request.info)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move { failure_response(&Status::read_only(), &Preferences::of_request(&request)) })
    }
}

fn is_read(info: &RequestInfo) -> bool {
    if !info.is_resource_request {
        return true;
    }
    let is_review = info.verb == "create" && REVIEW_GROUPS.contains(&info.api_group.as_str());
    is_review || READS.iter().any(|verb| info.verb == *verb) && !SESSIONS.contains(&info.subresource.as_str())
}
