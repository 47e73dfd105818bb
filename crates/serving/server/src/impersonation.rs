//! Impersonation: headers name the user, each part of the user is authorized, and the request runs as that user. The
//! constrained modes (KEP-5284), which depend on the request, are tried before the legacy mode, which does not.

mod cache;
mod headers;
mod metrics;
mod mode;
mod modes;
mod unconstrained;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_authn::RecentCache;
use binnacle_authz::{Attributes, Authorizer};
use binnacle_meta::{Status, Text};
use binnacle_request::latency::Part;
use binnacle_request::{ImpersonatedUser, Record, RequestInfo, User};
use http::HeaderMap;
use parking_lot::Mutex;

use cache::{CACHE_TTL, ImpersonationCache};
pub(crate) use metrics::ImpersonationMetrics;
use mode::Mode;
use modes::MODES;

/// The number of callers whose last successful mode is cached.
const MAX_CALLERS: usize = 5_000;

/// Decides which users callers may impersonate.
pub(crate) struct Impersonation {
    authorizer: Arc<dyn Authorizer>,
    /// True if constrained modes are on.
    constrained: bool,
    metrics: ImpersonationMetrics,
    cache: ImpersonationCache,
    /// The last successful mode of each caller, which is tried first, because most callers use only one.
    last: Mutex<RecentCache<Text, Mode>>,
}

impl Impersonation {
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>, constrained: bool, metrics: ImpersonationMetrics) -> Self {
        Self::with_ttl(CACHE_TTL, authorizer, constrained, metrics)
    }

    fn with_ttl(
        ttl: Duration,
        authorizer: Arc<dyn Authorizer>,
        constrained: bool,
        metrics: ImpersonationMetrics,
    ) -> Self {
        let last = Mutex::new(RecentCache::new(MAX_CALLERS));
        Self { authorizer, constrained, metrics, cache: ImpersonationCache::new(ttl), last }
    }

    /// Returns true if constrained impersonation (KEP-5284) is on.
    pub(crate) fn is_constrained(&self) -> bool {
        self.constrained
    }

    /// Returns the impersonated user. Returns `None` if the headers request no impersonation; they are then unchanged.
    pub(crate) async fn impersonate(
        &self,
        headers: &mut HeaderMap,
        info: &RequestInfo,
        requestor: &User,
        record: &Record,
    ) -> Result<Option<ImpersonatedUser>, Status> {
        let Some(target) = headers::requested_user(headers) else { return Ok(None) };
        if target.name.is_empty() {
            return Err(if self.constrained {
                headers::missing_name_error(&target)
            } else {
                unconstrained::missing_name_error(&target)
            });
        }
        headers::strip(headers);
        if !self.constrained {
            let user = Arc::new(unconstrained::check(&*self.authorizer, &target, requestor).await?);
            return Ok(Some(ImpersonatedUser { user, constraint: Text::default() }));
        }
        let began = Instant::now();
        let outcome = self.find(&target, &Attributes::of(info, requestor)).await;
        let took = began.elapsed();
        self.metrics.observe_attempt(outcome.as_ref().ok().map(|(mode, _)| mode.label()), took);
        record.took(Part::Impersonation, took);
        let (mode, user) = outcome?;
        Ok(Some(ImpersonatedUser { user, constraint: Text::new_static(mode.constraint()) }))
    }

    /// Returns the mode in which the caller of `request` may impersonate `target`, and the resulting user.
    async fn find(&self, target: &User, request: &Attributes<'_>) -> Result<(Mode, Arc<User>), Status> {
        let requestor = &request.user.name;
        let last = self.last.lock().get(requestor).copied();
        let mut first_error = None;
        for mode in last.into_iter().chain(MODES.into_iter().filter(|mode| Some(*mode) != last)) {
            match mode.check(self, target, request).await {
                Ok(Some(user)) => {
                    if last != Some(mode) {
                        self.last.lock().insert(requestor.clone(), mode);
                    }
                    return Ok((mode, user));
                }
                Ok(None) => {}
                Err(status) => first_error = first_error.or(Some(status)),
            }
        }
        Err(first_error.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }
}

#[cfg(test)]
mod tests;
