//! PersistentVolumeClaimResize: a claim can only grow if it is bound and its class allows volume expansion.

use std::sync::Arc;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    PersistentVolumeClaim as Claim, PersistentVolumeClaimSpec as Spec, PersistentVolumeClaimStatus,
    VolumeResourceRequirements,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::storage::v1::StorageClass;
use binnacle_meta::{Quantity, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;

use crate::lookup::{Lookup, LookupKind, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

pub(crate) struct PersistentVolumeClaimResize {
    lookup: Arc<dyn Lookup>,
}

impl PersistentVolumeClaimResize {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    async fn can_grow(&self, claim: FieldRef<'_, '_, Claim>, old: FieldRef<'_, '_, Claim>) -> Result<bool, Status> {
        let (class, old_class) = (class_of(claim), class_of(old));
        if class.is_empty() || class != old_class {
            return Ok(false);
        }
        let class = get_cached_or_stored(&*self.lookup, LookupKind::StorageClass, "", class).await?;
        Ok(class.is_some_and(|class| {
            FieldRef::<StorageClass>::root(&class).at(StorageClass::ALLOW_VOLUME_EXPANSION).bool()
        }))
    }
}

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && attributes.operation == Operation::Update
            && is_resource(attributes, "", "persistentvolumeclaims")
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(old) = request.old else { return Ok(()) };
            let (claim, old) = (FieldRef::<Claim>::root(object), FieldRef::<Claim>::root(old));
            if requested(claim) <= requested(old) {
                return Ok(());
            }
            if old.at(Claim::STATUS).at(PersistentVolumeClaimStatus::PHASE).str() != "Bound" {
                let why = "Only bound persistent volume claims can be expanded";
                return Err(forbidden(request.attributes, object, why));
            }
            if !self.can_grow(claim, old).await? {
                let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
                return Err(forbidden(request.attributes, object, why));
            }
            Ok(())
        })
    }
}

/// Returns the requested storage; `None`, which is less than any quantity, if it is zero.
fn requested(claim: FieldRef<Claim>) -> Option<Quantity> {
    let resources = claim.at(Claim::SPEC).at(Spec::RESOURCES).detached();
    let storage = resources.at(VolumeResourceRequirements::REQUESTS).key("storage").str();
    storage.parse().ok().filter(|size: &Quantity| !size.is_zero())
}

fn class_of<'v>(claim: FieldRef<'_, 'v, Claim>) -> &'v str {
    let annotations = claim.at(Claim::METADATA).at(ObjectMeta::ANNOTATIONS).detached();
    let annotation = annotations.key("volume.beta.kubernetes.io/storage-class").get_str();
    annotation.unwrap_or_else(|| claim.at(Claim::SPEC).at(Spec::STORAGE_CLASS_NAME).str())
}
