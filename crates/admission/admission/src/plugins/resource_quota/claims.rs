//! Usage of PersistentVolumeClaims: their number and requested storage, in total and by storage class.

use binnacle_meta::Quantity;
use binnacle_schema::Value;

use super::counts::count_of;
use super::evaluator::{Evaluator, number, selects};
use crate::plugin::Request;
use crate::plugins::pod_resources::{Resources, amounts};

pub(super) struct Claims;

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

impl Evaluator for Claims {
    fn handles(&self, request: Request<'_>, claim: &Value) -> bool {
        match request.attributes.subresource.as_str() {
            "" => true,
            "status" => request.old.is_some_and(|old| {
                let allocated = |claim: &Value| amounts(claim, &["status", "allocatedResources"]).remove("storage");
                allocated(old) != allocated(claim) || attributes_classes(old) != attributes_classes(claim)
            }),
            _ => false,
        }
    }

    fn counts(&self, name: &str) -> bool {
        let own = |name: &str| [CLAIMS, STORAGE].contains(&name);
        own(name)
            || name == count_of("", CLAIMS)
            || name.rsplit_once(BY_CLASS).is_some_and(|(_, of_class)| own(of_class))
    }

    fn usage(&self, claim: &Value) -> Resources {
        let mut usage = Resources::from([(CLAIMS.to_owned(), number(1)), (count_of("", CLAIMS), number(1))]);
        let annotation = claim.at(&["metadata", "annotations", BETA_CLASS]).and_then(Value::as_str);
        let class = annotation.unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]));
        if !class.is_empty() {
            usage.insert(format!("{class}{BY_CLASS}{CLAIMS}"), number(1));
        }
        if let Some(storage) = storage(claim) {
            if !class.is_empty() {
                usage.insert(format!("{class}{BY_CLASS}{STORAGE}"), storage.clone());
            }
            usage.insert(STORAGE.to_owned(), storage);
        }
        usage
    }

    fn in_scope(&self, selector: &Value, claim: &Value) -> bool {
        selector.str_at(&["scopeName"]) == "VolumeAttributesClass" && selects(selector, &attributes_classes(claim))
    }
}

/// Returns the requested storage, or the allocated storage of an unfinished expansion if that is more.
fn storage(claim: &Value) -> Option<Quantity> {
    let mut asked = amounts(claim, &["spec", "resources", "requests"]).remove("storage")?;
    asked.round_up(0);
    match amounts(claim, &["status", "allocatedResources"]).remove("storage") {
        Some(mut allocated) if allocated > asked => {
            allocated.round_up(0);
            Some(allocated)
        }
        _ => Some(asked),
    }
}

/// Returns the volume attributes classes that a claim has or requests.
fn attributes_classes(claim: &Value) -> Vec<&str> {
    let mut names = vec![
        claim.str_at(&["spec", "volumeAttributesClassName"]),
        claim.str_at(&["status", "currentVolumeAttributesClassName"]),
        claim.str_at(&["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
    ];
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    names
}
