//! Conversion between the versions of a kind.

use binnacle_schema::Value;

/// The conversion of a kind's objects to the storage version, and back: in place, including `apiVersion` and `kind`.
/// Canonical trees remain canonical.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    pub to_stored: fn(&mut Value),
    pub from_stored: fn(&mut Value),
}
