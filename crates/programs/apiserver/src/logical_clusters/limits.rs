//! The quota of a logical cluster: `spec.quota` of its object.

use std::sync::Arc;

use binnacle_meta::{Quantity, Status};
use binnacle_schema::{Value, value};
use binnacle_server::{RequestLimits, RequestQuota};
use binnacle_store::{StorageLimits, WriteWaits};
use tokio::sync::watch;

/// The limits of a cluster, and what it waits for. They apply while it runs, and change with its object.
pub(crate) struct Limits {
    pub(crate) storage: watch::Sender<StorageLimits>,
    pub(crate) requests: Arc<RequestQuota>,
    /// The waits of writes for the share of the cluster.
    pub(crate) waits: Arc<WriteWaits>,
}

/// The limits in an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quota {
    storage: StorageLimits,
    requests: RequestLimits,
}

// === impl Limits ===

impl Limits {
    pub(super) fn new(quota: Quota) -> Self {
        let limits =
            Self { storage: watch::Sender::new(quota.storage), requests: Arc::default(), waits: Arc::default() };
        limits.requests.set(quota.requests);
        limits
    }

    pub(super) fn set(&self, quota: Quota) {
        self.requests.set(quota.requests);
        self.storage.send_if_modified(|storage| std::mem::replace(storage, quota.storage) != quota.storage);
    }
}

// === impl Quota ===

impl Quota {
    /// Reads the quota in the object of a cluster.
    pub(super) fn of(object: &Value) -> Result<Self, Status> {
        let Some(quota) = object.get("spec").and_then(|spec| spec.get("quota")) else { return Ok(Self::default()) };
        let count = |name: &str| quota.get(name).and_then(Value::as_i64);
        let small = |name: &str| count(name).map(|count| u32::try_from(count.max(0)).unwrap_or(u32::MAX));
        Ok(Self {
            storage: StorageLimits {
                objects: count("objects").map(|count| u64::try_from(count).unwrap_or(0)),
                bytes: quota.get("bytes").map(bytes).transpose()?,
            },
            requests: RequestLimits { in_flight: small("requestsInFlight"), watches: small("watches") },
        })
    }
}

/// Reads a number of bytes: an integer, or a quantity like `64Mi`.
fn bytes(value: &Value) -> Result<u64, Status> {
    let bytes = match value.as_str() {
        Some(text) => {
            let invalid = |error| Status::bad_request(format!("spec.quota.bytes: {error}"));
            Quantity::parse(text).map_err(invalid)?.value()
        }
        None => value.as_i64().unwrap_or_default(),
    };
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Returns the schema of `spec.quota`.
pub(super) fn schema() -> Value {
    let count = |format: &str, description: &str| value!({"type": "integer", "format": format, "minimum": 0, "description": description});
    let bytes = value!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^\d+(\.\d+)?([KMGTPE]i|[kMGTPE])?$",
        "description": "The maximum number of bytes of keys and values in the store. Writes beyond it fail with 403; \
                        updates of existing objects may exceed it by a tenth, so that they can be deleted.",
    });
    let objects = "The maximum number of objects in the store, including those that every cluster has. Creations beyond \
                   it fail with 403.";
    let watches = "The maximum number of watches and other long-running requests. More fail with 429.";
    let requests = "The maximum number of other requests at the same time. More fail with 429.";
    value!({
        "type": "object",
        "description": "Limits on the whole cluster, of which none is set by default.",
        "properties": {
            "objects": (count("int64", objects)),
            "bytes": bytes,
            "watches": (count("int32", watches)),
            "requestsInFlight": (count("int32", requests)),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quotas() {
        let storage = |objects, bytes| StorageLimits { objects, bytes };
        let requests = |in_flight, watches| RequestLimits { in_flight, watches };
        for (quota, want) in [
            (value!({}), (storage(None, None), requests(None, None))),
            (value!({"objects": 5, "bytes": "1Ki"}), (storage(Some(5), Some(1024)), requests(None, None))),
            (value!({"bytes": 70, "watches": 0}), (storage(None, Some(70)), requests(None, Some(0)))),
            (value!({"requestsInFlight": 9}), (storage(None, None), requests(Some(9), None))),
        ] {
            let object = value!({"spec": {"quota": quota}});
            let quota = Quota::of(&object).expect("a valid quota");
            assert_eq!((quota.storage, quota.requests), want, "{object:?}");
        }
        assert_eq!(Quota::of(&value!({"spec": {}})).ok(), Some(Quota::default()));
        assert!(Quota::of(&value!({"spec": {"quota": {"bytes": "many"}}})).is_err());
    }
}
