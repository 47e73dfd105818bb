//! Between the versions of a kind.

use binnacle_schema::Value;

/// The conversion to the version in which the objects of a kind are handled, and back: in place, `apiVersion` and
/// `kind` included. Canonical trees become canonical trees.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    pub to_stored: fn(&mut Value),
    pub from_stored: fn(&mut Value),
}
