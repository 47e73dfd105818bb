//! Services: the allocation of their addresses and ports when they are written ([`service_hooks`]), its repair
//! ([`service_controllers`]), and where the server reaches them ([`ServiceAddresses`]).
//!
//! An address is allocated by creating the IPAddress with its name; node ports are in one object, in kube-apiserver's
//! format. Several servers on one store, of either kind, allocate nothing twice.

mod addresses;
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
