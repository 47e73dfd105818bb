//! StorageObjectInUseProtection: volumes, claims and volume attributes classes cannot be deleted while they are in use.

use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_fields::{FieldMut, metadata};
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;

use crate::plugin::{Plugin, Request, Stage, is_resource};

/// Groups, resources and the finalizers that protect them until a controller removes them.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

pub(crate) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate && attributes.operation == Operation::Create && finalizer(attributes).is_some()
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let finalizers = metadata(object).at(ObjectMeta::FINALIZERS).detached();
        if let Some(finalizer) = finalizer(request.attributes)
            && !finalizers.contains(finalizer)
        {
            let all = [finalizers.list(), &[finalizer.into()]].concat();
            let mut object = FieldMut::<PartialObjectMetadata>::root(object);
            object.entry(PartialObjectMetadata::METADATA).set(ObjectMeta::FINALIZERS, all);
        }
        Box::pin(async { Ok(()) })
    }
}

fn finalizer(attributes: &Attributes) -> Option<&'static str> {
    let found = PROTECTED.iter().find(|(group, plural, _)| is_resource(attributes, group, plural));
    found.map(|(_, _, finalizer)| *finalizer)
}
