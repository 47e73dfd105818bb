//! Priority and fairness: requests wait for a seat of their priority level, or are refused and should be retried.

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_flowcontrol::{FlowControl, Seat};
use binnacle_meta::Text;
use binnacle_request::{Query, RequestInfo, Response, User};
use http::StatusCode;
use http::{HeaderName, HeaderValue};

use crate::answer::Refusal;

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The uids of a request's flow schema and priority level, for headers of the answer: the names would reveal how the
/// client is classified.
#[derive(Default)]
pub(crate) struct Belongs {
    schema: Text,
    level: Text,
    known: bool,
}

/// Waits for a seat, if the request needs one: streams to pods and nodes do not.
pub(crate) async fn seat(
    control: Option<&Arc<FlowControl>>,
    info: &RequestInfo,
    query: &Query,
    user: &User,
    deadline: Option<Instant>,
    longest: Duration,
    belongs: &mut Belongs,
) -> Result<Option<Seat>, Refusal> {
    let Some(control) = control else { return Ok(None) };
    if info.is_long_running() && info.verb != "watch" {
        return Ok(None);
    }
    let patience = Instant::now() + longest / 4;
    let patience = deadline.map_or(patience, |deadline| deadline.min(patience));
    match control.admit(info, query, user, patience).await {
        Ok(admitted) => {
            *belongs = Belongs { schema: admitted.schema_uid, level: admitted.level_uid, known: true };
            Ok(Some(admitted.seat))
        }
        Err(rejected) => {
            *belongs = Belongs { schema: rejected.schema_uid, level: rejected.level_uid, known: true };
            let seconds = u32::try_from(rejected.retry_after).unwrap_or(1);
            Err(Refusal::TryLater {
                code: StatusCode::TOO_MANY_REQUESTS,
                text: "Too many requests, please try again later.",
                seconds,
                close: false,
            })
        }
    }
}

/// Adds the headers with the flow schema and priority level.
pub(crate) fn tell(belongs: &Belongs, response: &mut Response) {
    if belongs.known {
        for (name, uid) in [(LEVEL_UID, &belongs.level), (SCHEMA_UID, &belongs.schema)] {
            if let Ok(value) = HeaderValue::from_str(uid) {
                response.headers_mut().insert(name, value);
            }
        }
    }
}
