//! `apiregistration.k8s.io`: the servers of group versions.

mod api_service;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("APIService", &api_service::ApiService)];
