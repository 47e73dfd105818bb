//! Priority and fairness: requests wait for a seat of their priority level, or are rejected and should be retried.

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_flowcontrol::FlowControl;
use binnacle_request::{FlowNames, Query, Record, RequestInfo, Response, User};
use binnacle_work::Caller;
use http::StatusCode;
use http::{HeaderName, HeaderValue};

use crate::response::Rejection;
use crate::seats::HeldSeat;

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The uids of a request's flow schema and priority level, for response headers. The names would reveal how the client
/// is classified.
#[derive(Default)]
pub(crate) struct FlowClassification(Option<Arc<FlowNames>>);

impl FlowClassification {
    pub(crate) fn record_in(&self, record: &Record) {
        record.note(|facts| facts.flow.clone_from(&self.0));
    }
}

/// Waits for a seat, if the request needs one: streams to pods and nodes do not.
#[expect(clippy::too_many_arguments, reason = "what the chain has found out, and the bounds of the wait")]
pub(crate) async fn acquire_seat(
    control: Option<&Arc<FlowControl>>,
    info: &RequestInfo,
    query: &Query,
    user: &User,
    deadline: Option<Instant>,
    request_timeout: Duration,
    caller: Caller,
    classification: &mut FlowClassification,
) -> Result<Option<HeldSeat>, Rejection> {
    let Some(control) = control else { return Ok(None) };
    if info.is_long_running() && info.verb != "watch" {
        return Ok(None);
    }
    let until = Instant::now() + request_timeout / 4;
    let until = deadline.map_or(until, |deadline| deadline.min(until));
    match control.admit(info, query, user, until).await {
        Ok(admitted) => {
            classification.0 = Some(admitted.flow);
            let waiters = control.waiters().clone();
            Ok(Some(HeldSeat::new(admitted.seat, waiters, caller, deadline, request_timeout / 4)))
        }
        Err(rejected) => {
            classification.0 = Some(rejected.flow);
            let seconds = u32::try_from(rejected.retry_after).unwrap_or(1);
            Err(Rejection::RetryAfter {
                code: StatusCode::TOO_MANY_REQUESTS,
                text: "Too many requests, please try again later.",
                seconds,
                close: false,
            })
        }
    }
}

/// Adds the headers with the flow schema and priority level.
pub(crate) fn add_headers(classification: &FlowClassification, response: &mut Response) {
    if let Some(flow) = &classification.0 {
        for (name, uid) in [(LEVEL_UID, &flow.level_uid), (SCHEMA_UID, &flow.schema_uid)] {
            if let Ok(value) = HeaderValue::from_str(uid) {
                response.headers_mut().insert(name, value);
            }
        }
    }
}
