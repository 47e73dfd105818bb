//! `discovery.k8s.io`: the endpoints of services.

mod endpoint_slice;
mod validation;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("EndpointSlice", &endpoint_slice::EndpointSlice)];
