//! Registration of metric families. Each part of the server has its own families, and all go into one registry.

mod exposed;
mod summary;
mod text;

use prometheus::Registry;
use prometheus::core::Collector;

pub use exposed::{Exposed, ExposedOptions, pair};
pub use summary::{Summary, SummaryVec};
pub use text::text;

/// Registers a family and hands it back to be filled; clones fill the same family.
///
/// Fails where the registry has a family of that name already.
pub fn keep<C: Collector + Clone + 'static>(registry: &Registry, family: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}
