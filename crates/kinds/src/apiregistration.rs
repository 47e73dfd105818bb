//! `apiregistration.k8s.io`: which server serves a group version.

mod api_service;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("APIService", &api_service::ApiService)];
