//! Admission control: the built-in plugins of kube-apiserver, one module each, and the order in which they are called.
//!
//! Plugins get objects in their storage version, and look up other objects through [`Lookup`].

mod chain;
mod config;
mod config_formats;
mod decoded_cache;
mod lookup;
mod metrics;
mod operations;
mod plugin;
mod plugins;
mod reinvocation;
#[cfg(test)]
mod testing;

pub use chain::{Chain, ORDER, UnknownPlugin, is_default};
pub use config::{AdmissionConfigError, configure};
pub use decoded_cache::DecodedCache;
pub use lookup::{Freshness, Labels, Lookup, LookupKind, Mapping, NamespaceState, ResourceLookup};
pub use metrics::Metrics;
pub use plugin::{Plugin, Request, Stage, forbidden};
pub use plugins::{
    ClusterTolerations, EventLimit, EventLimitKind, ImagePolicySettings, LimitedResource, NodeSelectors, PluginOptions,
    PodSecurityMetrics, PodSecuritySettings, QuotaAmounts, QuotaState, QuotaUsage, all,
};
pub use reinvocation::Reinvocation;
