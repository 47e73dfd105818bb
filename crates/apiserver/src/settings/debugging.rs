//! Settings of profiles, debug flags, traces and egress.

use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct Debugging {
    /// True when `/debug/pprof` serves profiles, and `/debug/flags` the host's settable flags
    /// ([`Host::debug_flags`](super::Host::debug_flags)).
    pub profiling: bool,
    /// A socket that serves both to users who may open it.
    pub socket: Option<PathBuf>,
    /// A file with a TracingConfiguration.
    pub tracing_config: Option<PathBuf>,
    /// A file with an EgressSelectorConfiguration.
    pub egress_config: Option<PathBuf>,
}

impl Default for Debugging {
    fn default() -> Self {
        Self { profiling: true, socket: None, tracing_config: None, egress_config: None }
    }
}
