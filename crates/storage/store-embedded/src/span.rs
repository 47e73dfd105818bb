//! Spans of revisions.

/// The revisions `after + 1 ..= last`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) after: u64,
    pub(crate) last: u64,
}

impl Span {
    pub(crate) fn new(after: u64, last: u64) -> Self {
        Self { after, last }
    }
}
