//! Requests to the committer.

use std::ops::Range;

use binnacle_store::{LeaseId, StoreError, Txn, TxnResponse};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::marker::Marker;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A request to the committer.
pub(crate) enum Command {
    Txn {
        txn: Txn,
        reply: Reply<TxnResponse>,
    },
    Grant {
        ttl_seconds: u64,
        reply: Reply<LeaseId>,
    },
    Revoke {
        lease: i64,
        reply: Reply<()>,
    },
    /// Deletes the first keys of a range.
    DeleteRange {
        range: Range<Bytes>,
        reply: Reply<DeletedKeys>,
    },
    Compact {
        marker: Marker,
        reply: Reply<()>,
    },
}

/// The result of [`Command::DeleteRange`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeletedKeys {
    pub(crate) deleted: u64,
    /// True if the range may have more keys.
    pub(crate) more: bool,
}
