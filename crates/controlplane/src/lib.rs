//! What the server does by itself, without being asked over HTTP: it gives services their addresses and ports
//! ([`service_hooks`]), and sees to it that the objects every cluster has are there ([`start`]).

mod certificates;
mod config;
mod flowcontrol;
mod follow;
mod objects;
mod random;
mod services;
mod start;
mod system_namespaces;
#[cfg(test)]
mod testing;

pub use certificates::RequesterOfCertificates;
pub use config::{Config, PortRange};
pub use services::{ServiceHooks, service_hooks};
pub use start::{ControlPlane, Step, start};
