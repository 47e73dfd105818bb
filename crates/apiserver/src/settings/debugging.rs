//! What is served for those who look into the server, and where its traces go.

use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct Debugging {
    /// True when `/debug/flags` serves the flags that the host lets be set ([`Host::debug_flags`](super::Host::debug_flags)).
    pub profiling: bool,
    /// A file with a TracingConfiguration.
    pub tracing_config: Option<PathBuf>,
    /// A file with an EgressSelectorConfiguration.
    pub egress_config: Option<PathBuf>,
}

impl Default for Debugging {
    fn default() -> Self {
        Self { profiling: true, tracing_config: None, egress_config: None }
    }
}
