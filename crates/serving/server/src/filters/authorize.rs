//! Authorization of the request.

use std::time::Instant;

use binnacle_authz::{Attributes, Authorizer, authorize_with_permit, forbidden};
use binnacle_meta::go_quote;
use binnacle_request::latency::Part;
use binnacle_request::{Permit, Record, RequestInfo, User};
use http::StatusCode;
use http::request::Parts;

use crate::Metrics;
use crate::response::Rejection;

pub(crate) async fn authorize(
    authorizer: &dyn Authorizer,
    info: &RequestInfo,
    user: &User,
    parts: &Parts,
    record: &Record,
    metrics: &Metrics,
) -> Result<Permit, Rejection> {
    let attributes = Attributes::of(info, user);
    let began = Instant::now();
    let result = authorize_with_permit(authorizer, &attributes).await;
    let took = began.elapsed();
    metrics.observe_authorization(result.as_ref().map(|(decision, _)| decision), took);
    record.took(Part::Authorization, took);
    let (decision, permit) = result.map_err(|error| {
        record.annotate("authorization.k8s.io/reason", "internal error");
        tracing::error!(audit_id = %record.audit_id(), "{error}");
        let uri = go_quote(parts.uri.path_and_query().map_or("", |path| path.as_str()));
        Rejection::Text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Server Error: {uri}: {error}"))
    })?;
    let outcome = permit.ok_or_else(|| {
        tracing::debug!(uri = record.uri(), reason = decision.reason(), "Forbidden");
        Rejection::Quoting(forbidden(&attributes, decision.reason()))
    });
    record.note(|facts| facts.decision = Some(decision));
    outcome
}
