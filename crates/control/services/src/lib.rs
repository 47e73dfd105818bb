//! Services: the allocation of their addresses and ports when they are written ([`service_hooks`]), the repair of
//! allocations ([`service_controllers`]), and the addresses at which the server reaches services
//! ([`ServiceAddresses`]).
//!
//! An address is allocated by creating the IPAddress object with its name. Node ports are in one object, in
//! kube-apiserver's format. Several servers on one store, including kube-apiservers, allocate nothing twice.

mod addresses;
mod allocations;
mod bitmap;
mod config;
mod controllers;
mod families;
mod hooks;
mod metrics;
mod missing_addresses;
mod node_ports;
mod ports;
mod range;
mod repair;
mod resolver;
mod service_cidr;
mod spec;

pub use config::{PortRange, ServiceConfig};
pub use controllers::{ServiceControllers, service_controllers};
pub use hooks::{ServiceHooks, service_hooks};
pub use metrics::AllocatorMetrics;
pub use range::AddressRange;
pub use resolver::{ServiceAddresses, ServiceRouting};
