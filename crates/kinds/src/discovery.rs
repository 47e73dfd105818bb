//! `discovery.k8s.io`: where services are.

mod endpoint_slice;
mod validation;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("EndpointSlice", &endpoint_slice::EndpointSlice)];
