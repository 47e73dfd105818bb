//! Counts the request among those in flight.

use std::sync::Arc;

use binnacle_request::RequestInfo;

use crate::inflight::{Guard, InFlight, Kind};

pub(crate) fn count(inflight: &Arc<InFlight>, info: &RequestInfo) -> Guard {
    let kind = match () {
        () if info.is_long_running() => Kind::LongRunning,
        () if info.is_read_only() => Kind::ReadOnly,
        () => Kind::Mutating,
    };
    inflight.begin(kind)
}
