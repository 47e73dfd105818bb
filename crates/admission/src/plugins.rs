//! The plugins, and the list of those that are built.

mod namespace_lifecycle;

use std::sync::Arc;

use crate::lookup::Lookup;
use crate::plugin::Plugin;
use namespace_lifecycle::NamespaceLifecycle;

/// What flags say about plugins.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--default-not-ready-toleration-seconds`.
    pub not_ready_toleration_seconds: i64,
    /// `--default-unreachable-toleration-seconds`.
    pub unreachable_toleration_seconds: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self { not_ready_toleration_seconds: 300, unreachable_toleration_seconds: 300 }
    }
}

/// The plugins that are built and that the reference enables by default.
pub fn all(lookup: Arc<dyn Lookup>, _options: &Options) -> Vec<Arc<dyn Plugin>> {
    vec![Arc::new(NamespaceLifecycle::new(lookup))]
}
