//! Counts requests in flight, and rejects those above the limits unless priority and fairness is on.

use std::sync::Arc;

use binnacle_request::{RequestInfo, User};
use http::StatusCode;

use crate::inflight::{InFlight, RequestGuard, RequestKind};
use crate::response::Rejection;

/// Limits on short requests in flight (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    /// Both limits; zero means unlimited.
    pub read_only: i64,
    pub mutating: i64,
}

pub(crate) fn count(inflight: &Arc<InFlight>, info: &RequestInfo) -> RequestGuard {
    inflight.begin(kind(info))
}

/// Rejects a request above the limit; administrators are exempt.
pub(crate) fn check(
    limits: Option<InFlightLimits>,
    inflight: &InFlight,
    info: &RequestInfo,
    user: &User,
) -> Result<(), Rejection> {
    let Some(limits) = limits else { return Ok(()) };
    let kind = kind(info);
    let limit = match kind {
        RequestKind::ReadOnly => limits.read_only,
        RequestKind::Mutating => limits.mutating,
        RequestKind::LongRunning => 0,
    };
    // The count includes the request itself.
    if limit == 0 || inflight.now(kind) <= limit || user.is_in(User::MASTERS) {
        return Ok(());
    }
    Err(Rejection::RetryAfter {
        code: StatusCode::TOO_MANY_REQUESTS,
        text: "Too many requests, please try again later.",
        seconds: 1,
        close: false,
    })
}

fn kind(info: &RequestInfo) -> RequestKind {
    match () {
        () if info.is_long_running() => RequestKind::LongRunning,
        () if info.is_read_only() => RequestKind::ReadOnly,
        () => RequestKind::Mutating,
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;
    use http::Method;

    use super::*;

    #[test]
    fn rejects_requests_above_the_limit() {
        let inflight = InFlight::new();
        let info = |method: Method| RequestInfo::parse(&method, "/api/v1/nodes", &Query::default(), "").unwrap();
        let (get, post) = (info(Method::GET), info(Method::POST));
        let limits = Some(InFlightLimits { read_only: 1, mutating: 0 });
        let (user, master) = (User::new("a", &[]), User::new("b", &[User::MASTERS]));
        let _first = count(&inflight, &get);
        assert!(check(limits, &inflight, &get, &user).is_ok());
        let _second = count(&inflight, &get);
        assert!(check(limits, &inflight, &get, &user).is_err());
        assert!(check(limits, &inflight, &get, &master).is_ok());
        assert!(check(None, &inflight, &get, &user).is_ok());
        let _others = [count(&inflight, &post), count(&inflight, &post)];
        assert!(check(limits, &inflight, &post, &user).is_ok());
    }
}
