//! The resources of a request that are released after its response.

use std::time::{Duration, Instant};

use binnacle_request::Record;

use crate::inflight::ShortRequestGuard;
use crate::seats::HeldSeat;

/// The resources that a request holds until its response is complete.
#[derive(Default)]
pub(crate) struct HeldResources {
    pub(crate) seat: Option<HeldSeat>,
    pub(crate) short_request: Option<ShortRequestGuard>,
    pub(crate) deadline: Option<Instant>,
    /// True for a long-running request.
    pub(crate) is_long_running: bool,
}

impl HeldResources {
    /// Returns the time by which the response must have been sent; `None` for long-running requests. A response at the
    /// last moment, such as the one that reports the timeout, gets some more time.
    pub(crate) fn send_by(
        &self,
        status: http::StatusCode,
        record: &Record,
        request_timeout: Duration,
    ) -> Option<Instant> {
        const MIN_SEND_TIME: Duration = Duration::from_secs(2);
        let is_long_running =
            self.is_long_running && (status.is_success() || status == http::StatusCode::SWITCHING_PROTOCOLS);
        let deadline = self.deadline.unwrap_or_else(|| record.started() + request_timeout);
        (!is_long_running).then(|| deadline.max(Instant::now() + MIN_SEND_TIME))
    }
}
