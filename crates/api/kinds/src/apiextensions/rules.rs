//! Newer rules of schemas, which an update skips if the old definition breaks them.

/// Newer rules, each true unless the old definition breaks it.
pub(super) struct Rules {
    pub(super) valid_types: bool,
    pub(super) atomic_sets: bool,
    pub(super) map_keys: bool,
}
