//! RuntimeClass: sets the overhead and scheduling constraints of a pod's runtime class.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_fields::core::v1::{Pod, PodSpec};
use binnacle_fields::node::v1::{Overhead, RuntimeClass as Class, Scheduling};
use binnacle_fields::types::{self, Map};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Quantity, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::{pod, tolerations};
use crate::lookup::{Lookup, LookupKind, client_error, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

const OVERHEAD_DIFFERS: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub(crate) struct RuntimeClass {
    lookup: Arc<dyn Lookup>,
}

impl RuntimeClass {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    /// Returns the runtime class of a pod, if it has one.
    async fn class_of(&self, attributes: &Attributes, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
        let Some(name) = pod::spec(pod).at(PodSpec::RUNTIME_CLASS_NAME).get_str() else { return Ok(None) };
        if let Some(error) = client_error(name) {
            return Err(Status::unknown(500, &error));
        }
        match get_cached_or_stored(&*self.lookup, LookupKind::RuntimeClass, "", name).await? {
            Some(class) => Ok(Some(class)),
            None => {
                let why = format!("pod rejected: RuntimeClass {} not found", binnacle_meta::go_quote(name));
                Err(forbidden(attributes, pod, why))
            }
        }
    }
}

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn handles(&self, _: Stage, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && is_resource(attributes, "", "pods")
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(class) = self.class_of(request.attributes, object).await? else { return Ok(()) };
            let class = FieldRef::<Class>::root(&class);
            set_overhead(request.attributes, object, class.at(Class::OVERHEAD))?;
            set_scheduling(request.attributes, object, class.at(Class::SCHEDULING))
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let class = self.class_of(request.attributes, object).await?;
            let class = class.as_ref().map(|class| FieldRef::<Class>::root(class).at(Class::OVERHEAD).detached());
            let spec = pod::spec(object);
            let given = spec.at(PodSpec::OVERHEAD);
            match class.and_then(FieldRef::set) {
                Some(overhead) if quantities(overhead.at(Overhead::POD_FIXED)) != quantities(given) => {
                    Err(forbidden(request.attributes, object, OVERHEAD_DIFFERS))
                }
                None if given.is_set() || object.has_empty_map(&[Pod::SPEC.name(), PodSpec::OVERHEAD.name()]) => {
                    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                    Err(forbidden(request.attributes, object, why))
                }
                _ => Ok(()),
            }
        })
    }
}

fn set_overhead(attributes: &Attributes, pod: &mut Value, overhead: FieldRef<Overhead>) -> Result<(), Status> {
    if !overhead.is_set() {
        return Ok(());
    }
    let fixed = overhead.at(Overhead::POD_FIXED);
    let given = quantities(pod::spec(pod).at(PodSpec::OVERHEAD));
    if !given.is_empty() && given != quantities(fixed) {
        return Err(forbidden(attributes, pod, OVERHEAD_DIFFERS));
    }
    let mut pod = FieldMut::<Pod>::root(pod);
    let mut spec = pod.entry(Pod::SPEC);
    match fixed.get() {
        Some(fixed) => spec.set(PodSpec::OVERHEAD, fixed.clone()),
        None => drop(spec.remove(PodSpec::OVERHEAD)),
    }
    Ok(())
}

fn set_scheduling(attributes: &Attributes, pod: &mut Value, scheduling: FieldRef<Scheduling>) -> Result<(), Status> {
    if !scheduling.is_set() {
        return Ok(());
    }
    for (key, value) in scheduling.at(Scheduling::NODE_SELECTOR).entries() {
        let value = value.str();
        if let Some(own) = pod::spec(pod).at(PodSpec::NODE_SELECTOR).key(key).get_str()
            && own != value
        {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(forbidden(attributes, pod, why));
        }
        FieldMut::<Pod>::root(pod).entry(Pod::SPEC).map_entry(PodSpec::NODE_SELECTOR).insert(key, value);
    }
    let spec = pod::spec(pod);
    let (own, more) = (spec.at(PodSpec::TOLERATIONS).list(), scheduling.at(Scheduling::TOLERATIONS).list());
    let merged = tolerations::merge(own, more);
    if !merged.is_empty() {
        FieldMut::<Pod>::root(pod).entry(Pod::SPEC).set(PodSpec::TOLERATIONS, merged);
    }
    Ok(())
}

/// Returns the parsed quantities, which compare regardless of their notation.
fn quantities(list: FieldRef<Map<types::Quantity>>) -> BTreeMap<String, Option<Quantity>> {
    list.entries().map(|(name, amount)| (name.to_owned(), amount.str().parse().ok())).collect()
}
