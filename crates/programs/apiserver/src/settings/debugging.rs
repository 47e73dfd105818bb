//! Settings of profiles, debug flags, traces, egress and shadow comparison.

use std::path::PathBuf;

use binnacle_comparison::ShadowOptions;

#[derive(Clone, Debug)]
pub struct Debugging {
    /// True when `/debug/pprof` serves profiles, and `/debug/flags` the host's settable flags
    /// ([`Host::debug_flags`](super::Host::debug_flags)).
    pub profiling: bool,
    /// True when `/debug/live` shows browsers what the server is doing.
    pub live_page: bool,
    /// A socket that serves profiles and settable flags to users who may open it.
    pub socket: Option<PathBuf>,
    /// A file with a TracingConfiguration.
    pub tracing_config: Option<PathBuf>,
    /// A file with an EgressSelectorConfiguration.
    pub egress_config: Option<PathBuf>,
    /// Repeats a sample of the requests on another server and compares the answers.
    pub shadow: Option<ShadowOptions>,
}

impl Default for Debugging {
    fn default() -> Self {
        Self {
            profiling: true,
            live_page: false,
            socket: None,
            tracing_config: None,
            egress_config: None,
            shadow: None,
        }
    }
}
