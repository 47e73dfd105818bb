//! Impersonation: replaces the user of the request if requested and allowed.

use std::sync::Arc;

use binnacle_request::{Record, RequestInfo, User};
use http::HeaderMap;

use crate::impersonation::Impersonation;
use crate::response::Rejection;

/// Returns the user that the request runs as.
pub(crate) async fn impersonate(
    impersonation: &Impersonation,
    headers: &mut HeaderMap,
    info: &RequestInfo,
    caller: Arc<User>,
    record: &Record,
) -> Result<Arc<User>, Rejection> {
    let impersonated = impersonation.impersonate(headers, info, &caller, record).await.map_err(Rejection::Quoting)?;
    let Some(impersonated) = impersonated else { return Ok(caller) };
    let user = impersonated.user.clone();
    record.note(|facts| (facts.user, facts.impersonator) = (Some(user.clone()), Some(caller)));
    if let Some(notes) = record.audit() {
        notes.note(|noted| noted.impersonated = Some(impersonated));
    }
    Ok(user)
}
