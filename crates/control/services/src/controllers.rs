//! The controllers of services: the range that addresses come from, and the repair of allocations.

use std::sync::Arc;

use binnacle_controllers::{Controller, Queues};
use binnacle_registry::Catalog;

use crate::allocations::Allocations;
use crate::config::ServiceConfig;
use crate::{missing_addresses, repair, service_cidr};

/// The controllers of services.
pub struct ServiceControllers {
    /// Creates the ServiceCIDR of the flags, without which no service gets an address.
    pub cidr: Controller,
    /// Marks the addresses and ports of services as allocated, and releases those that belong to no service.
    pub repair: Controller,
}

/// Returns the controllers of services.
pub fn service_controllers(resources: &Catalog, config: &ServiceConfig, queues: &Queues) -> ServiceControllers {
    let allocations = Arc::new(Allocations::new(resources.clone(), config.clone()));
    let cidr =
        Controller::periodic("start-kubernetes-service-cidr-controller", Some(10), &allocations, |allocations| {
            Box::pin(service_cidr::ensure(allocations))
        });
    let repair = Controller::periodic("start-service-ip-repair-controllers", Some(180), &allocations, |allocations| {
        Box::pin(repair::ensure(allocations))
    })
    .with_trigger(&allocations, |allocations| Box::pin(missing_addresses::wait_for_missing(allocations)))
    .with_queues(["services", "ipaddresses"].map(|name| queues.queue(name)).into());
    ServiceControllers { cidr, repair }
}
