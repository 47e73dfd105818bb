//! The state that the controllers of services share.

use binnacle_registry::Catalog;
use parking_lot::Mutex;

use crate::config::ServiceConfig;

/// The shared state of the controllers of services.
pub(crate) struct Allocations {
    pub(crate) resources: Catalog,
    pub(crate) config: ServiceConfig,
    /// Node ports that belonged to no service at the last check.
    pub(crate) leaked_ports: Mutex<Vec<i64>>,
}

impl Allocations {
    pub(crate) fn new(resources: Catalog, config: ServiceConfig) -> Self {
        Self { resources, config, leaked_ports: Mutex::default() }
    }
}
