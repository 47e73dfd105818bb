//! Rejects new requests while the server finishes those in flight (`--shutdown-send-retry-after`).

use binnacle_request::{RequestInfo, Shutdown};
use http::StatusCode;
use http::header::USER_AGENT;
use http::request::Parts;

use crate::response::Rejection;

/// Probes and metrics are served to the end.
pub(super) const EXEMPT: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];
const RETRY_AFTER_SECONDS: u32 = 5;

pub(crate) fn check(draining: Option<&Shutdown>, info: &RequestInfo, parts: &Parts) -> Result<(), Rejection> {
    if !draining.is_some_and(Shutdown::is_fired) || is_exempt(info, parts) {
        return Ok(());
    }
    Err(Rejection::RetryAfter {
        code: StatusCode::TOO_MANY_REQUESTS,
        text: "The apiserver is shutting down, please try again later.",
        seconds: RETRY_AFTER_SECONDS,
        close: true,
    })
}

fn is_exempt(info: &RequestInfo, parts: &Parts) -> bool {
    // The server's own requests. A client that pretends to be the server gains nothing but a response.
    let is_own_request =
        parts.headers.get(USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"kube-apiserver/"));
    is_own_request || EXEMPT.iter().any(|prefix| info.path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use binnacle_request::{Query, ShutdownTrigger};
    use http::{Method, Request};

    use super::*;

    #[test]
    fn rejects_requests_while_draining() {
        let (trigger, draining) = ShutdownTrigger::new();
        let is_rejected = |path: &str, agent: &str| {
            let (parts, ()) = Request::builder().uri(path).header(USER_AGENT, agent).body(()).unwrap().into_parts();
            let info = RequestInfo::parse(&Method::GET, path, &Query::default(), path).unwrap();
            check(Some(&draining), &info, &parts).is_err()
        };
        assert!(!is_rejected("/api/v1/nodes", "kubectl/1"));
        trigger.fire();
        for (path, agent, want) in [
            ("/api/v1/nodes", "kubectl/1", true),
            ("/readyz", "probe", false),
            ("/metrics", "prometheus", false),
            ("/api/v1/nodes", "kube-apiserver/v1.36", false),
        ] {
            assert_eq!(is_rejected(path, agent), want, "{path} {agent}");
        }
        let info = RequestInfo::default();
        assert!(check(None, &info, &Request::new(()).into_parts().0).is_ok());
    }
}
