//! Deadlines of requests that are not long-running; clients can request shorter ones.

use std::time::{Duration, Instant};

use binnacle_meta::Status;
use binnacle_request::{Query, Record, RequestInfo};

use crate::duration::parse_go;
use crate::response::Rejection;

/// Returns the deadline of the response; `None` for long-running requests.
pub(crate) fn compute(
    info: &RequestInfo,
    query: &Query,
    record: &Record,
    request_timeout: Duration,
) -> Result<Option<Instant>, Rejection> {
    if info.is_long_running() {
        return Ok(None);
    }
    let requested = match query.get("timeout").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => parse_go(text)
            .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?,
    };
    // Zero and negative values are ignored.
    let timeout = requested
        .filter(|requested| !requested.is_zero())
        .map_or(request_timeout, |requested| requested.min(request_timeout));
    Ok(Some(record.started() + timeout))
}

/// Waits for a response until the deadline; returns `None` if it expires.
pub(crate) async fn within<T>(deadline: Option<Instant>, response: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(response.await),
        Some(deadline) => tokio::time::timeout_at(deadline.into(), response).await.ok(),
    }
}

pub(crate) fn timeout_rejection() -> Rejection {
    Status::timeout("request did not complete within the allotted timeout", 0).into()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn bounds_requested_timeouts() {
        let request_timeout = Duration::from_secs(60);
        for (uri, want) in [
            ("/api/v1/pods", Ok(Some(60))),
            ("/api/v1/pods?timeout=", Ok(Some(60))),
            ("/api/v1/pods?timeout=0s", Ok(Some(60))),
            ("/api/v1/pods?timeout=-5s", Ok(Some(60))),
            ("/api/v1/pods?timeout=5s", Ok(Some(5))),
            ("/api/v1/pods?timeout=5m", Ok(Some(60))),
            ("/api/v1/pods?watch=1&timeout=5s", Ok(None)),
            (
                "/api/v1/pods?timeout=soon",
                Err("invalid timeout specified in the request URL - time: invalid duration \"soon\""),
            ),
        ] {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let query = Query::parse(query);
            let info = RequestInfo::parse(&Method::GET, path, &query, uri).unwrap();
            let record = Record::open(Method::GET, uri.into(), None, None);
            match (compute(&info, &query, &record, request_timeout), want) {
                (Ok(deadline), Ok(seconds)) => {
                    assert_eq!(deadline.map(|at| (at - record.started()).as_secs()), seconds, "{uri}");
                }
                (Err(Rejection::Status(status)), Err(message)) => {
                    assert_eq!((status.code(), status.message()), (400, message))
                }
                (other, _) => panic!("{uri}: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn returns_none_after_the_deadline() {
        assert_eq!(within(Some(Instant::now()), std::future::pending::<()>()).await, None);
        assert_eq!(within(None, async { 1 }).await, Some(1));
    }
}
