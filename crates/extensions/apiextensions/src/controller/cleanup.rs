//! The deletion of a definition: its objects are deleted as by a client, and then its finalizer is removed.

use std::collections::BTreeSet;

use crate::Definition;
use binnacle_fields::apiextensions::v1::CustomResourceDefinition as Crd;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, metadata};
use binnacle_meta::Status;
use binnacle_registry::{Context, DeleteOptions, ListOptions, Resource};
use binnacle_schema::Value;

use super::conditions::{Condition, put};
use super::{CLEANUP, Reconciler};
use binnacle_controllers::Objects;

/// The state of a definition's objects after the deletion request.
enum Instances {
    /// Some objects still have finalizers.
    Remaining,
    Gone(Condition<'static>),
}

/// Returns true if a definition may still have objects.
pub(super) fn has_objects(object: &Value) -> bool {
    metadata(object).at(ObjectMeta::FINALIZERS).contains(CLEANUP)
}

impl Reconciler<'_> {
    /// Deletes the remaining objects; returns true when nothing is left to do for the definition.
    pub(super) async fn clean_up(&mut self, objects: &Objects, definition: &Definition) -> Result<bool, Status> {
        let name = &definition.name;
        let in_progress = Condition {
            kind: "Terminating",
            holds: true,
            reason: "InstanceDeletionInProgress",
            message: "CustomResource deletion is in progress",
        };
        let is_served = definition.is("Established");
        if is_served {
            // Clients that have read the condition can create nothing any more.
            self.serving.serve(definition, true, &*self.state.registrar);
        }
        self.update_status(objects, name, None, |object| put(object, in_progress)).await?;
        let instances = if is_served {
            match self.serving.storage_resource(definition) {
                Some(resource) => delete_instances(&resource).await?,
                None => Instances::Gone(Condition {
                    kind: "Terminating",
                    holds: false,
                    reason: "OverlappingBuiltInResource",
                    message: "instances overlap with built-in resources in storage",
                }),
            }
        } else {
            Instances::Gone(Condition {
                kind: "Terminating",
                holds: false,
                reason: "NeverEstablished",
                message: "resource was never established",
            })
        };
        let Instances::Gone(finished) = instances else { return Ok(false) };
        let change = |object: &mut Value| {
            put(object, finished);
            let remaining = metadata(object).at(ObjectMeta::FINALIZERS).list().iter();
            let remaining: Vec<Value> =
                remaining.filter(|finalizer| finalizer.as_str() != Some(CLEANUP)).cloned().collect();
            FieldMut::<Crd>::root(object).entry(Crd::METADATA).set(ObjectMeta::FINALIZERS, remaining);
        };
        self.update_status(objects, name, None, change).await?;
        Ok(true)
    }
}

async fn delete_instances(resource: &Resource) -> Result<Instances, Status> {
    let everywhere = Context::internal("");
    let list = ListOptions::default();
    let mut page = resource.list_to_delete(&everywhere, &list).await?;
    let mut namespaces = BTreeSet::new();
    while let Some(chunk) = page.next_chunk() {
        namespaces.extend(chunk.iter().map(|entry| entry.namespace().to_owned()));
    }
    for namespace in namespaces {
        resource.delete_collection(&Context::internal(&namespace), &list, &DeleteOptions::default()).await?;
    }
    if resource.list_to_delete(&everywhere, &list).await?.next_chunk().is_some() {
        return Ok(Instances::Remaining);
    }
    Ok(Instances::Gone(Condition {
        kind: "Terminating",
        holds: false,
        reason: "InstanceDeletionCompleted",
        message: "removed all instances",
    }))
}
