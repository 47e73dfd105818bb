//! The cached parameters of a kind.

use std::sync::{Arc, OnceLock};

use binnacle_admission::DecodedCache;

use crate::remote::RemoteParams;

/// Cached parameters of a kind, which policies share.
#[derive(Default)]
pub(crate) struct ParamCache {
    /// The decoded objects of this server.
    pub(crate) decoded: DecodedCache,
    /// The objects of another server, once a request has needed them.
    pub(crate) remote: OnceLock<Arc<dyn RemoteParams>>,
}

impl std::fmt::Debug for ParamCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownParams").field("decoded", &self.decoded).finish_non_exhaustive()
    }
}
