//! The feature gates and global options of one server.

use crate::{Gates, Version};

/// The feature gates of a server and its options. Immutable once the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    pub gates: Gates,
    /// True if privileged containers are allowed (`--allow-privileged`).
    pub allow_privileged: bool,
    /// True when the server only reads its store, which another server writes (`--read-only`).
    pub read_only: bool,
}

impl Default for Features {
    /// Returns the defaults of this release; privileged containers are allowed.
    fn default() -> Self {
        Self { gates: Gates::default(), allow_privileged: true, read_only: false }
    }
}

impl Features {
    /// Returns true if a feature is enabled. An unknown name is a programming error; it counts as disabled.
    pub fn enabled(&self, feature: &str) -> bool {
        debug_assert!(self.gates.knows(feature), "there is no feature gate {feature}");
        self.gates.enabled(feature)
    }

    /// Returns the version of Kubernetes that the server emulates.
    pub fn emulated(&self) -> Version {
        self.gates.emulated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_do_not_share_gates() {
        let off = Features::default();
        let gates = Gates::parse(&["GenericWorkload=true"], Version::BINARY, Version::BINARY.previous())
            .expect("an alpha gate");
        let on = Features { gates, allow_privileged: false, read_only: false };
        assert!(on.enabled("GenericWorkload") && !off.enabled("GenericWorkload"));
        assert_eq!((on.allow_privileged, off.allow_privileged), (false, true));
    }

    #[test]
    #[should_panic(expected = "there is no feature gate Nonsense")]
    #[cfg(debug_assertions)]
    fn panics_on_unknown_names_in_debug_builds() {
        Features::default().enabled("Nonsense");
    }
}
