//! The classification of failed calls: whether a call was executed, and whether it can be retried.

use binnacle_store::{Revision, StoreError};
use tonic::{Code, Status};

/// A failed call, for the code that decides whether to retry it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// etcd responded, and a retry would get the same response.
    Answered(StoreError),
    /// etcd has compacted the requested revision. The response does not contain the revision of the compaction.
    Compacted,
    /// Nothing was executed. Another member may execute it, or this one later.
    NotDone(String),
    /// The connection or the member was lost. It is unknown whether the call was executed.
    Unknown(String),
}

// === impl Failure ===

impl Failure {
    pub(crate) fn of(status: &Status) -> Self {
        let message = status.message();
        match status.code() {
            Code::NotFound if message.contains("requested lease not found") => {
                Self::Answered(StoreError::LeaseNotFound)
            }
            Code::OutOfRange if message.contains("has been compacted") => Self::Compacted,
            // Returned before anything is proposed to the cluster, with different codes.
            Code::InvalidArgument if message.ends_with("request is too large") => Self::Answered(StoreError::TooLarge),
            // The limits on messages of its connections, in either direction.
            Code::ResourceExhausted
                if message.contains("received message larger than max")
                    || message.contains("trying to send message larger than max") =>
            {
                Self::Answered(StoreError::TooLarge)
            }
            // The limit of this side.
            Code::OutOfRange if message.contains("message length too large") => Self::Answered(StoreError::TooLarge),
            // A caller that needs the current revision reads it.
            Code::OutOfRange if message.contains("future revision") => {
                Self::Answered(StoreError::FutureRevision { current: Revision(0) })
            }
            _ if is_connect_error(status) => Self::NotDone(describe(status)),
            // Both are returned before anything is proposed to the cluster.
            Code::Unavailable if message.ends_with("no leader") || message.ends_with("not capable") => {
                Self::NotDone(describe(status))
            }
            Code::ResourceExhausted if message.ends_with("too many requests") => Self::NotDone(describe(status)),
            // The permissions of users changed while the call was queued. Nothing of it was executed.
            Code::InvalidArgument if message.ends_with("revision of auth store is old") => {
                Self::NotDone(describe(status))
            }
            // A learner returns this for most calls, with one code in 3.4 and the other since 3.5.
            Code::Unavailable | Code::FailedPrecondition if message.ends_with("rpc not supported for learner") => {
                Self::NotDone(describe(status))
            }
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown | Code::Internal => {
                Self::Unknown(describe(status))
            }
            _ => Self::Answered(StoreError::Unavailable(describe(status))),
        }
    }

    /// Returns true if another member may respond otherwise.
    pub(crate) fn is_of_member(&self) -> bool {
        match self {
            Self::Answered(_) | Self::Compacted => false,
            Self::NotDone(_) | Self::Unknown(_) => true,
        }
    }

    /// Converts the failure to the error for the caller of the store.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Answered(error) => error,
            Self::Compacted => StoreError::Compacted { compacted: Revision(0) },
            Self::NotDone(text) | Self::Unknown(text) => StoreError::Unavailable(text),
        }
    }
}

/// Describes a status as etcd's Go client does: its own errors with their text, others with their code.
fn describe(status: &Status) -> String {
    let message = status.message();
    if message.starts_with("etcdserver: ") || message.starts_with("mvcc: ") {
        message.to_owned()
    } else {
        let code = format!("{:?}", status.code());
        let mut text = format!("rpc error: code = {code} desc = {message}");
        let mut source = std::error::Error::source(status);
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text.push_str(": ");
                text.push_str(&more);
            }
            source = error.source();
        }
        text
    }
}

/// Returns true if no connection could be established, so that nothing was sent.
fn is_connect_error(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_failures_by_code_and_message() {
        for (code, message, want) in [
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", "Compacted"),
            (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision", "Answered(FutureRevision"),
            (Code::NotFound, "etcdserver: requested lease not found", "Answered(LeaseNotFound)"),
            (Code::Unavailable, "etcdserver: no leader", "NotDone(\"etcdserver: no leader\")"),
            (Code::Unavailable, "etcdserver: not capable", "NotDone("),
            (Code::ResourceExhausted, "etcdserver: too many requests", "NotDone("),
            (Code::Unavailable, "etcdserver: rpc not supported for learner", "NotDone("),
            (Code::FailedPrecondition, "etcdserver: rpc not supported for learner", "NotDone("),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", "NotDone("),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", "Answered(Unavailable("),
            (Code::InvalidArgument, "etcdserver: request is too large", "Answered(TooLarge"),
            (Code::ResourceExhausted, "grpc: received message larger than max (3 vs. 2)", "Answered(TooLarge"),
            (Code::Unavailable, "etcdserver: request timed out", "Unknown(\"etcdserver: request timed out\")"),
            (Code::Unavailable, "etcdserver: leader changed", "Unknown("),
            (
                Code::Unavailable,
                "connection reset",
                "Unknown(\"rpc error: code = Unavailable desc = connection reset\")",
            ),
            (Code::PermissionDenied, "etcdserver: permission denied", "Answered(Unavailable("),
        ] {
            let failure = format!("{:?}", Failure::of(&Status::new(code, message)));
            assert!(failure.starts_with(want), "{code:?} {message}: {failure}");
        }
    }
}
