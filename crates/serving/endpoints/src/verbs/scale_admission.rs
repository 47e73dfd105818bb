//! Admission of `scale`, which receives the Scale instead of the workload with the changed replicas.

use std::sync::Arc;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{GroupVersionKind, Status};
use binnacle_patch::apply;
use binnacle_registry::admission::{Admission, Attributes};
use binnacle_registry::{RequestNotes, Resource, WriteObject, object};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_scheme::ScaleFields;

use super::scale_object::{GROUP, KIND, VERSION, replicas_by_version, scale_of, set_replicas, spec_replicas, validate};

/// Wraps the admission of a workload for a write of its scale.
pub(super) struct ScaleAdmission {
    inner: Arc<dyn Admission>,
    fields: Option<ScaleFields>,
    /// The workload's version, for managed fields.
    api_version: String,
}

impl ScaleAdmission {
    /// Returns the resource of a workload with this admission.
    pub(super) fn wrap(resource: &Resource) -> Resource {
        let collection = &resource.collection;
        let admission = Self {
            inner: collection.admission.clone(),
            fields: collection.kind.scale.clone(),
            api_version: resource.api_version().to_owned(),
        };
        resource.with_admission(Arc::new(admission))
    }

    fn scale(&self, workload: &Value) -> Result<Value, Status> {
        let mut scale = scale_of(self.fields.as_ref(), workload)?;
        let replicas = replicas_by_version(self.fields.as_ref(), &self.api_version);
        let managers = apply::Scale { api_version: &self.api_version, replicas: &replicas };
        let owners = managers.to_scale(metadata(workload).at(ObjectMeta::MANAGED_FIELDS).list());
        object::set_metadata(&mut scale, "managedFields", owners);
        Ok(scale)
    }
}

fn attributes_of_scale(attributes: &Attributes) -> Attributes {
    Attributes { kind: GroupVersionKind::new(GROUP, VERSION, KIND), ..attributes.clone() }
}

impl Admission for ScaleAdmission {
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a mut WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let old = old.map(|old| self.scale(old)).transpose()?;
            let mut scale = WriteObject::from(self.scale(object)?);
            let before = spec_replicas(&scale);
            self.inner.mutate(&attributes_of_scale(attributes), &mut scale, old.as_ref(), notes).await?;
            // Only the replicas are written.
            let replicas = spec_replicas(&scale);
            if replicas != before {
                validate(&scale)?;
                set_replicas(self.fields.as_ref(), object, replicas.unwrap_or(0));
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            // kube-apiserver derives both scales from the workloads, without managers.
            let fields = self.fields.as_ref();
            let old = old.map(|old| scale_of(fields, old)).transpose()?;
            let scale = WriteObject::from(scale_of(fields, object)?);
            self.inner.validate(&attributes_of_scale(attributes), &scale, old.as_ref(), notes).await
        })
    }
}
