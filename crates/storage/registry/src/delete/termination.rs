//! Deletion of namespaces and CustomResourceDefinitions, whose contents a controller removes first.

use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Definition, CustomResourceDefinitionCondition as DefinitionCondition,
    CustomResourceDefinitionStatus as DefinitionStatus,
};
use binnacle_fields::core::v1::{Namespace, NamespaceSpec, NamespaceStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Text;
use binnacle_schema::{Value, value};
use binnacle_scheme::Deletion;

use super::DeleteRequest;
use crate::resource::Resource;
use crate::{object, time};

impl DeleteRequest<'_> {
    /// Returns true for a namespace in deletion whose spec still has finalizers. Without them it is deleted like any
    /// other object (`REST.Delete` of namespaces).
    pub(super) fn is_terminating_namespace(&self, current: &Value) -> bool {
        self.resource.has_spec_finalizers(current) && object::is_deleting(current)
    }

    /// Sets the phase `Terminating` in a namespace that is not in deletion yet, which keeps it until its spec has no
    /// finalizers (`REST.Delete` of namespaces). Returns `None` for other objects.
    pub(super) fn terminate_namespace(&self, current: &Value) -> Option<Value> {
        if self.resource.description.deletion != Deletion::Namespace || object::is_deleting(current) {
            return None;
        }
        let mut object = current.clone();
        let now = time::from_seconds(self.context.now_seconds());
        object::metadata_fields(&mut object).set(ObjectMeta::DELETION_TIMESTAMP, now);
        FieldMut::root(&mut object).entry(Namespace::STATUS).set(NamespaceStatus::PHASE, "Terminating");
        self.propagate(&mut object);
        Some(object)
    }

    /// Adds the condition `Terminating` and a finalizer to a CustomResourceDefinition that is not in deletion yet,
    /// which keeps it until its custom resources are deleted (`REST.Delete` of definitions). Returns `None` for other
    /// objects.
    pub(super) fn terminate_definition(&self, current: &Value) -> Option<Value> {
        const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
        if self.resource.description.deletion != Deletion::CustomResourceDefinition || object::is_deleting(current) {
            return None;
        }
        let mut object = current.clone();
        let now = time::from_seconds(self.context.now_seconds());
        object::metadata_fields(&mut object).set(ObjectMeta::DELETION_TIMESTAMP, now.clone());
        let mut finalizers: Vec<Text> = object::finalizers(&object).into_iter().map(Text::from).collect();
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
            finalizers.push(Text::new_static(CLEANUP));
        }
        object::set_finalizers(&mut object, finalizers);
        let condition = value!({
            "type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        });
        let mut definition = FieldMut::<Definition>::root(&mut object);
        let mut status = definition.entry(Definition::STATUS);
        let conditions = status.list_entry(DefinitionStatus::CONDITIONS);
        conditions.retain(|known| FieldRef::root(known).at(DefinitionCondition::TYPE).str() != "Terminating");
        conditions.push(condition);
        Some(object)
    }
}

impl Resource {
    /// Returns true if finalizers in the spec block the deletion, as for namespaces.
    pub(crate) fn has_spec_finalizers(&self, object: &Value) -> bool {
        self.description.deletion == Deletion::Namespace
            && !FieldRef::<Namespace>::root(object).at(Namespace::SPEC).at(NamespaceSpec::FINALIZERS).is_empty()
    }
}
