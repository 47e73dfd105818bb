//! The default levels and schemas: creates missing ones, and updates those that administrators have not taken over.
//!
//! An annotation shows whether an object follows the defaults. Mandatory objects always do. For the others, an
//! administrator decides by the annotation; without it, only an unchanged object (generation 1) follows the defaults.

use binnacle_fields::flowcontrol::v1::{
    ExemptPriorityLevelConfiguration as Exempt, FlowSchema, PriorityLevelConfiguration as PriorityLevel,
    PriorityLevelConfigurationSpec as PriorityLevelSpec,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Catalog, Context, DeleteOptions, Match};
use binnacle_schema::{Value, canonical, value};
use futures::future::join_all;

use super::defaults;
use super::{GROUP, LEVELS, SCHEMAS, VERSION};
use binnacle_controllers::Objects;

const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";
const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// The desired state of an object.
struct DesiredObject {
    name: &'static str,
    mandatory: bool,
    spec: Value,
}

/// Creates missing defaults, updates objects that follow them, and deletes such objects that are no longer defaults.
pub(crate) async fn ensure(resources: &Catalog) -> Result<(), Status> {
    let levels = Objects::new(resources, GROUP, VERSION, LEVELS)?.managed_by(MANAGER);
    let schemas = Objects::new(resources, GROUP, VERSION, SCHEMAS)?.managed_by(MANAGER);
    let desired_levels: Vec<DesiredObject> = defaults::LEVELS
        .iter()
        .map(|level| DesiredObject { name: level.name, mandatory: level.mandatory, spec: level.spec() })
        .collect();
    let desired_schemas: Vec<DesiredObject> = defaults::SCHEMAS
        .iter()
        .map(|schema| DesiredObject { name: schema.name, mandatory: schema.mandatory, spec: schema.spec() })
        .collect();
    // A schema can be used only if its level exists.
    create_or_update(&levels, &desired_levels).await?;
    create_or_update(&schemas, &desired_schemas).await?;
    delete_obsolete(&schemas, &desired_schemas).await?;
    delete_obsolete(&levels, &desired_levels).await
}

async fn create_or_update(objects: &Objects, desired: &[DesiredObject]) -> Result<(), Status> {
    let existing = objects.list_as("", Match::Consistent).await?;
    let puts = desired.iter().map(|desired| async {
        match existing.iter().find(|object| metadata(object).at(ObjectMeta::NAME).str() == desired.name) {
            None => create(objects, desired).await,
            Some(object) if pending_update(objects, desired, object).is_none() => Ok(()),
            Some(_) => update(objects, desired).await,
        }
    });
    join_all(puts).await.into_iter().collect()
}

async fn create(objects: &Objects, desired: &DesiredObject) -> Result<(), Status> {
    let object = value!({
        "metadata": {"name": (desired.name), "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": (desired.spec.clone())
    });
    match objects.create("", object).await {
        Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
        created => created.map(|_| ()),
    }
}

async fn update(objects: &Objects, desired: &DesiredObject) -> Result<(), Status> {
    let updated = objects.update("", desired.name, "", |object| {
        let Some(PendingUpdate { follows, spec }) = pending_update(objects, desired, object) else { return };
        // A priority level has these fields, too.
        let mut object = FieldMut::<FlowSchema>::root(object);
        if let Some(spec) = spec {
            object.set(FlowSchema::SPEC, spec);
        }
        let mut metadata = object.entry(FlowSchema::METADATA);
        metadata.map_entry(ObjectMeta::ANNOTATIONS).insert(AUTOUPDATE, if follows { "true" } else { "false" });
    });
    match updated.await {
        // The object was deleted or changed meanwhile; the next run checks it again.
        Err(status) if status.is(StatusReason::NotFound) || status.is(StatusReason::Conflict) => Ok(()),
        updated => updated,
    }
}

/// The change that an object needs.
struct PendingUpdate {
    follows: bool,
    spec: Option<Value>,
}

fn pending_update(objects: &Objects, desired: &DesiredObject, object: &Value) -> Option<PendingUpdate> {
    let annotation = follows(object);
    let unchanged = metadata(object).at(ObjectMeta::GENERATION).int() == Some(1);
    let follows = desired.mandatory || annotation.unwrap_or(unchanged);
    let spec = if follows { changed_spec(objects, desired, object) } else { None };
    (annotation != Some(follows) || spec.is_some()).then_some(PendingUpdate { follows, spec })
}

/// Returns the desired spec of an object if its current spec differs.
fn changed_spec(objects: &Objects, desired: &DesiredObject, object: &Value) -> Option<Value> {
    let resource = objects.resource();
    let mut expected = value!({"spec": (desired.spec.clone())});
    resource.set_defaults(&mut expected);
    // The limits of the exempt level belong to the administrator, mandatory or not.
    let current = FieldRef::<PriorityLevel>::root(object).at(PriorityLevel::SPEC).detached();
    let limits = current.at(PriorityLevelSpec::EXEMPT);
    if let (Some(_), Some(mut spec)) =
        (limits.object(), FieldMut::<PriorityLevel>::root(&mut expected).structure(PriorityLevel::SPEC))
        && let Some(mut expected) = spec.structure(PriorityLevelSpec::EXEMPT)
    {
        expected.keep(limits, Exempt::NOMINAL_CONCURRENCY_SHARES);
        expected.keep(limits, Exempt::LENDABLE_PERCENT);
    }
    canonical::canonicalize(&mut expected, &resource.message);
    let expected = FieldRef::<PriorityLevel>::root(&expected);
    (expected.at(PriorityLevel::SPEC).get() != current.get()).then(|| desired.spec.clone())
}

/// Returns the value of the annotation, if it is valid.
fn follows(object: &Value) -> Option<bool> {
    match metadata(object).at(ObjectMeta::ANNOTATIONS).key(AUTOUPDATE).str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

async fn delete_obsolete(objects: &Objects, desired: &[DesiredObject]) -> Result<(), Status> {
    for object in objects.list_as("", Match::Any).await? {
        let name = metadata(&object).at(ObjectMeta::NAME).str();
        if follows(&object) != Some(true) || desired.iter().any(|desired| desired.name == name) {
            continue;
        }
        match objects.resource().delete(&Context::internal(""), name, &DeleteOptions::default()).await {
            Err(status) if !status.is(StatusReason::NotFound) => return Err(status),
            _ => {}
        }
    }
    Ok(())
}
