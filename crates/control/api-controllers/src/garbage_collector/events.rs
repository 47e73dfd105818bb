//! Events for references that can never be right.

use std::time::SystemTime;

use binnacle_meta::{Text, go_quote};
use binnacle_registry::{Context, ListOptions, Match, generate_name, rfc3339};
use binnacle_schema::value;

use super::graph::ObjectKey;
use super::meta::{MetaReader, Owner};
use super::{GarbageCollector, NAME};

impl GarbageCollector {
    /// Reports a reference to an owner that exists in another namespace than its dependent.
    pub(super) async fn report_other_namespace(&self, owner: &Owner, expected: &ObjectKey, dependent: &ObjectKey) {
        // An owner that was seen to be deleted is simply gone.
        if expected.namespace.is_empty() || self.absent.lock().contains(&owner.uid) {
            return;
        }
        if self.is_elsewhere(owner, expected).await
            && let Err(status) = self.write_event(owner, dependent).await
        {
            tracing::warn!(error = status.message(), "failed to write an event");
        }
    }

    /// Returns true if the owner has the same name in another namespace.
    async fn is_elsewhere(&self, owner: &Owner, expected: &ObjectKey) -> bool {
        let collection = &expected.resource.collection;
        let options = ListOptions { version: Match::Any, ..ListOptions::default() };
        let Ok(mut page) = expected.resource.list(&Context::internal(""), &options).await else { return false };
        let reader = MetaReader::new(collection);
        while let Some(chunk) = page.next_chunk() {
            let named = chunk.iter().filter(|entry| entry.name() == owner.name.as_str());
            if named.filter_map(|entry| reader.read(collection, entry)).any(|found| found.uid == owner.uid) {
                return true;
            }
        }
        false
    }

    async fn write_event(&self, owner: &Owner, dependent: &ObjectKey) -> Result<(), binnacle_meta::Status> {
        let Some(uid) = self.uid_of(dependent).await? else { return Ok(()) };
        let Owner { api_version, kind, name, uid: owner_uid, .. } = owner;
        let of = &dependent.namespace;
        let reference = format!("[{api_version}/{kind}, namespace: {of}, name: {name}, uid: {owner_uid}]");
        let message = format!("ownerRef {reference} does not exist in namespace {}", go_quote(of));
        let namespace: Text = if of.is_empty() { "default".into() } else { of.clone() };
        let now = rfc3339(SystemTime::now());
        let d = &dependent.resource.description;
        let event = value!({
            "metadata": {"name": (generate_name(&format!("{}.", dependent.name))), "namespace": (namespace.clone())},
            "involvedObject": {
                "kind": (d.kind.clone()), "apiVersion": (dependent.resource.api_version()),
                "namespace": (of.clone()), "name": (dependent.name.clone()), "uid": uid
            },
            "reason": "OwnerRefInvalidNamespace",
            "message": message,
            "type": "Warning",
            "source": {"component": NAME},
            "reportingComponent": NAME,
            "firstTimestamp": (now.as_str()),
            "lastTimestamp": (now.as_str()),
            "count": 1i64,
        });
        self.events.create(&namespace, event).await.map(drop)
    }
}
