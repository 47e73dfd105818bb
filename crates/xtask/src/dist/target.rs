//! The machines that packages are for, and what the formats of packages call them.

use object::elf::{EM_AARCH64, EM_X86_64, Machine};

/// One kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// As rustc calls it.
    pub(crate) triple: &'static str,
    /// As Debian and OCI call it.
    pub(crate) debian: &'static str,
    /// The part of the triple that `std::env::consts::ARCH` has.
    cpu: &'static str,
    /// Debian's name for where its libraries are.
    pub(crate) multiarch: &'static str,
    /// As headers of programs call it.
    pub(crate) machine: Machine,
}

/// The kinds of machines that packages can be made for.
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
    /// The target with this triple; this machine without one.
    pub(crate) fn named(triple: Option<&str>) -> Result<Self, String> {
        let cpu = std::env::consts::ARCH;
        let found =
            TARGETS.into_iter().find(|target| triple.map_or(target.cpu == cpu, |triple| target.triple == triple));
        let known = TARGETS.map(|target| target.triple).join(", ");
        found.ok_or_else(|| format!("packages are made for {known}, not for {}", triple.unwrap_or(cpu)))
    }

    /// True when programs for it run here.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.cpu == std::env::consts::ARCH
    }
}
