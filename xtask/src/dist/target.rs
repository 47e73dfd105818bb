//! The platforms that packages are for, and their names in the package formats.

use object::elf::{EM_AARCH64, EM_X86_64, Machine};

/// An architecture with a C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name in rustc.
    pub(crate) triple: &'static str,
    /// The name in Debian and OCI.
    pub(crate) debian: &'static str,
    /// The name in RPM. It is also the part of the triple that equals `std::env::consts::ARCH`.
    pub(crate) cpu: &'static str,
    /// Debian's name of the architecture's library folder.
    pub(crate) multiarch: &'static str,
    /// The machine in ELF headers.
    pub(crate) machine: Machine,
    /// Programs are linked statically with musl, and run on every Linux system.
    pub(crate) is_static: bool,
}

const X86_64: Target = Target {
    triple: "x86_64-unknown-linux-gnu",
    debian: "amd64",
    cpu: "x86_64",
    multiarch: "x86_64-linux-gnu",
    machine: EM_X86_64,
    is_static: false,
};
const AARCH64: Target = Target {
    triple: "aarch64-unknown-linux-gnu",
    debian: "arm64",
    cpu: "aarch64",
    multiarch: "aarch64-linux-gnu",
    machine: EM_AARCH64,
    is_static: false,
};
/// The supported platforms.
pub(crate) const TARGETS: [Target; 4] = [
    X86_64,
    AARCH64,
    Target { triple: "x86_64-unknown-linux-musl", is_static: true, ..X86_64 },
    Target { triple: "aarch64-unknown-linux-musl", is_static: true, ..AARCH64 },
];

impl Target {
    /// Returns the target with this triple, or this machine's for `None`.
    pub(crate) fn named(triple: Option<&str>) -> Result<Self, String> {
        let is_wanted = |target: &Self| triple.map_or(target.is_host(), |triple| target.triple == triple);
        TARGETS.into_iter().find(is_wanted).ok_or_else(|| {
            let supported = TARGETS.map(|target| target.triple).join(", ");
            format!("packages are made for {supported}, not for {}", triple.unwrap_or(std::env::consts::ARCH))
        })
    }

    /// Returns true if cargo builds for the target without `--target`.
    pub(crate) fn is_host(&self) -> bool {
        !self.is_static && self.runs_here()
    }

    /// Returns true if this machine runs programs for the target.
    pub(crate) fn runs_here(&self) -> bool {
        self.cpu == std::env::consts::ARCH
    }
}
