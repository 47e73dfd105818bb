//! Feature gates: which there are, which are on, and what a version of Kubernetes thinks of them.
//!
//! The gates are settings of the process: they are installed once at start, and asked for by name wherever a field or a
//! resource depends on them. Without [`install`] the defaults of the release hold. Knows nothing of what features do.

mod gates;
mod table;
mod version;

use std::sync::OnceLock;

pub use gates::{GateError, Gates};
pub use table::{Spec, Stage};
pub use version::{Version, VersionError, compatible_version, emulated_version};

static INSTALLED: OnceLock<Gates> = OnceLock::new();

/// Makes these the gates of the process. Only the first call counts: whoever asked before would have been told otherwise.
pub fn install(gates: Gates) -> bool {
    INSTALLED.set(gates).is_ok()
}

/// The gates of the process.
pub fn gates() -> &'static Gates {
    INSTALLED.get_or_init(Gates::default)
}

/// Whether a feature of the table is on. A name that no gate has is a mistake, and off.
pub fn enabled(feature: &str) -> bool {
    debug_assert!(gates().knows(feature), "there is no feature gate {feature}");
    gates().enabled(feature)
}
