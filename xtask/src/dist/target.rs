//! The architectures that packages are for, and their names in the package formats.

use object::elf::{EM_AARCH64, EM_X86_64, Machine};

/// An architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name in rustc.
    pub(crate) triple: &'static str,
    /// The name in Debian and OCI.
    pub(crate) debian: &'static str,
    /// The part of the triple that equals `std::env::consts::ARCH`.
    cpu: &'static str,
    /// Debian's name of the architecture's library folder.
    pub(crate) multiarch: &'static str,
    /// The machine in ELF headers.
    pub(crate) machine: Machine,
}

/// The supported architectures.
const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        cpu: "x86_64",
        multiarch: "x86_64-linux-gnu",
        machine: EM_X86_64,
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        cpu: "aarch64",
        multiarch: "aarch64-linux-gnu",
        machine: EM_AARCH64,
    },
];

impl Target {
    /// Returns the target with this triple, or this machine's for `None`.
    pub(crate) fn named(triple: Option<&str>) -> Result<Self, String> {
        let cpu = std::env::consts::ARCH;
        let found =
            TARGETS.into_iter().find(|target| triple.map_or(target.cpu == cpu, |triple| target.triple == triple));
        let known = TARGETS.map(|target| target.triple).join(", ");
        found.ok_or_else(|| format!("packages are made for {known}, not for {}", triple.unwrap_or(cpu)))
    }

    /// Returns true if this machine runs programs for the target.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.cpu == std::env::consts::ARCH
    }
}
