//! Limits on the responses of servers.

/// The maximum size of a response head (Go's `MaxResponseHeaderBytes` is of this order).
pub(crate) const MAX_HEAD_BYTES: usize = 1 << 20;
pub(crate) const MAX_HEADERS: usize = 512;
