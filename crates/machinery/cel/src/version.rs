//! The versions of the libraries.

/// The Kubernetes version whose libraries an expression can use: the version with which new expressions must be
/// compatible, or [`Version::STORED`] for stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u16);

impl Version {
    /// All features of this server.
    pub const STORED: Self = Self(u16::MAX);
    /// The features that the previous version has too.
    pub const COMPATIBLE: Self = Self(35);

    /// Returns version 1 with this minor version.
    pub const fn minor(minor: u16) -> Self {
        Self(minor)
    }

    pub(crate) fn at_least(self, minor: u16) -> bool {
        self.0 >= minor
    }

    /// Maps all versions before the first change, and all after the last one, to a single version each.
    pub(crate) fn rounded(self) -> Self {
        Self(self.0.clamp(26, 38))
    }
}
