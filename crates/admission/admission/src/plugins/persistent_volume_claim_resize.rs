//! PersistentVolumeClaimResize: a claim can grow only if it is bound and its class allows volume expansion.

use std::sync::Arc;

use binnacle_meta::{Quantity, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::lookup::{Lookup, LookupKind, get_surely};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

pub(crate) struct PersistentVolumeClaimResize {
    lookup: Arc<dyn Lookup>,
}

impl PersistentVolumeClaimResize {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    async fn can_grow(&self, claim: &Value, old: &Value) -> Result<bool, Status> {
        let (class, old_class) = (class_of(claim), class_of(old));
        if class.is_empty() || class != old_class {
            return Ok(false);
        }
        let class = get_surely(&*self.lookup, LookupKind::StorageClass, "", class).await?;
        Ok(class.is_some_and(|class| class.bool_at(&["allowVolumeExpansion"])))
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
            if requested(object) <= requested(old) {
                return Ok(());
            }
            if old.str_at(&["status", "phase"]) != "Bound" {
                let why = "Only bound persistent volume claims can be expanded";
                return Err(forbidden(request.attributes, object, why));
            }
            if !self.can_grow(object, old).await? {
                let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
                return Err(forbidden(request.attributes, object, why));
            }
            Ok(())
        })
    }
}

/// Returns the requested storage; zero counts as `None`, which is less than any amount.
fn requested(claim: &Value) -> Option<Quantity> {
    claim.str_at(&["spec", "resources", "requests", "storage"]).parse().ok().filter(|size: &Quantity| !size.is_zero())
}

fn class_of(claim: &Value) -> &str {
    let annotation = claim.at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    annotation.and_then(Value::as_str).unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]))
}
