//! Bounds on what one document may cost.

/// Limits of a decoder. The defaults suit request bodies.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The size of a document.
    pub max_bytes: usize,
    /// How deep lists and objects may nest. The reference allows 10,000; trees are walked by recursion here, so the
    /// bound is what every stack of ours can bear.
    pub max_depth: usize,
    /// How many YAML nodes a document may have, aliases expanded.
    pub max_yaml_nodes: usize,
}

impl Limits {
    /// What the reference accepts as a request body.
    pub const MAX_BODY: usize = 3 * 1024 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: Self::MAX_BODY, max_depth: 256, max_yaml_nodes: 500_000 }
    }
}
