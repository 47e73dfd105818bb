//! Counts requests in flight, and rejects those above the limits unless priority and fairness is on, and those above the
//! quota of the chain's cluster.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_request::{RequestInfo, User};
use http::StatusCode;
use parking_lot::RwLock;

use crate::inflight::{InFlight, RequestGuard, RequestKind};
use crate::response::Rejection;

/// Limits on short requests in flight (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    /// Both limits; zero means unlimited.
    pub read_only: i64,
    pub mutating: i64,
}

/// Limits on all requests of a chain together, whose process serves others as well. They can change at any time.
#[derive(Debug, Default)]
pub struct RequestQuota(RwLock<RequestLimits>);

/// The limits of a [`RequestQuota`]. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLimits {
    /// Short requests in flight.
    pub in_flight: Option<u32>,
    /// Watches and other long-running requests.
    pub watches: Option<u32>,
}

impl RequestQuota {
    pub fn set(&self, limits: RequestLimits) {
        *self.0.write() = limits;
    }

    /// Rejects a request above the limit. Nobody is exempt.
    pub(crate) fn check(&self, inflight: &InFlight, info: &RequestInfo) -> Result<(), Rejection> {
        let limits = *self.0.read();
        let (quota, limit, used) = match kind(info) {
            RequestKind::LongRunning => ("watches", limits.watches, inflight.now(RequestKind::LongRunning)),
            RequestKind::ReadOnly | RequestKind::Mutating => {
                let used = inflight.now(RequestKind::ReadOnly) + inflight.now(RequestKind::Mutating);
                ("requestsInFlight", limits.in_flight, used)
            }
        };
        // The count includes the request itself.
        let Some(limited) = limit.filter(|limit| used > i64::from(*limit)) else { return Ok(()) };
        let used = used - 1;
        let message =
            format!("exceeded quota of this cluster: {quota}, requested: 1, used: {used}, limited: {limited}");
        Err(Status::too_many_requests(message, 1).into())
    }
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

    #[test]
    fn quota_applies_to_all_short_requests_together() {
        let inflight = InFlight::new();
        let info =
            |method, query: &str| RequestInfo::parse(&method, "/api/v1/nodes", &Query::parse(query), "").unwrap();
        let (get, post, watch) = (info(Method::GET, ""), info(Method::POST, ""), info(Method::GET, "watch=1"));
        let quota = RequestQuota::default();
        let _requests = [count(&inflight, &get), count(&inflight, &post), count(&inflight, &watch)];
        assert!(quota.check(&inflight, &get).is_ok());
        quota.set(RequestLimits { in_flight: Some(2), watches: Some(0) });
        assert!(quota.check(&inflight, &get).is_ok());
        let refused = |info| match quota.check(&inflight, info) {
            Err(Rejection::Status(status)) => status.message().to_owned(),
            other => panic!("{other:?}"),
        };
        let watches = "exceeded quota of this cluster: watches, requested: 1, used: 0, limited: 0";
        assert_eq!(refused(&watch), watches);
        let _another = count(&inflight, &post);
        let in_flight = "exceeded quota of this cluster: requestsInFlight, requested: 1, used: 2, limited: 2";
        assert_eq!(refused(&post), in_flight);
    }
}
