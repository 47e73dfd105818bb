//! The usage of PersistentVolumeClaims: their number and requested storage, in total and by storage class.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    ModifyVolumeStatus, PersistentVolumeClaim as Claim, PersistentVolumeClaimSpec as Spec,
    PersistentVolumeClaimStatus as Status, VolumeResourceRequirements,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::Quantity;
use binnacle_schema::Value;

use super::counts::count_of;
use super::evaluator::{Evaluator, Selector, number, selects};
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
                let [old, claim] = [old, claim].map(FieldRef::root);
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
        let claim = FieldRef::<Claim>::root(claim);
        let annotation = claim.at(Claim::METADATA).at(ObjectMeta::ANNOTATIONS).key(BETA_CLASS).get_str();
        let class = annotation.unwrap_or_else(|| claim.at(Claim::SPEC).at(Spec::STORAGE_CLASS_NAME).str());
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

    fn in_scope(&self, selector: FieldRef<Selector>, claim: &Value) -> bool {
        selector.at(Selector::SCOPE_NAME).str() == "VolumeAttributesClass"
            && selects(selector, &attributes_classes(FieldRef::root(claim)))
    }

    fn scoping<'v>(&self, claim: &'v Value) -> Vec<&'v str> {
        attributes_classes(FieldRef::root(claim))
    }
}

/// Returns the requested storage, or the allocated storage of an unfinished expansion if that is more.
fn storage(claim: FieldRef<Claim>) -> Option<Quantity> {
    let resources = claim.at(Claim::SPEC).at(Spec::RESOURCES).detached();
    let mut requested = amounts(resources.at(VolumeResourceRequirements::REQUESTS)).remove("storage")?;
    requested.round_up(0);
    match allocated(claim) {
        Some(mut allocated) if allocated > requested => {
            allocated.round_up(0);
            Some(allocated)
        }
        _ => Some(requested),
    }
}

fn allocated(claim: FieldRef<Claim>) -> Option<Quantity> {
    amounts(claim.at(Claim::STATUS).at(Status::ALLOCATED_RESOURCES)).remove("storage")
}

/// Returns the volume attributes classes that a claim has or requests.
fn attributes_classes<'v>(claim: FieldRef<'_, 'v, Claim>) -> Vec<&'v str> {
    let status = claim.at(Claim::STATUS);
    let mut names = vec![
        claim.at(Claim::SPEC).at(Spec::VOLUME_ATTRIBUTES_CLASS_NAME).str(),
        status.at(Status::CURRENT_VOLUME_ATTRIBUTES_CLASS_NAME).str(),
        status.at(Status::MODIFY_VOLUME_STATUS).at(ModifyVolumeStatus::TARGET_VOLUME_ATTRIBUTES_CLASS_NAME).str(),
    ];
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    names
}
