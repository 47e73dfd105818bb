//! RuntimeClass: the overhead of a pod's runtime class, and the nodes that support it.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_meta::{Quantity, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value};

use super::tolerations;
use crate::lookup::{Lookup, LookupKind, get_surely};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

const OVERHEAD_DIFFERS: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub(crate) struct RuntimeClass {
    lookup: Arc<dyn Lookup>,
}

impl RuntimeClass {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    /// Returns the runtime class of a pod, if it names one.
    async fn class_of(&self, attributes: &Attributes, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
        let Some(name) = pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) else { return Ok(None) };
        if name.is_empty() {
            // The error of kube-apiserver's client for a class without a name.
            return Err(Status::unknown(500, "resource name may not be empty"));
        }
        match get_surely(&*self.lookup, LookupKind::RuntimeClass, "", name).await? {
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
            set_overhead(request.attributes, object, &class)?;
            set_scheduling(request.attributes, object, &class)
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let class = self.class_of(request.attributes, object).await?;
            let fixed = class.as_ref().filter(|class| has(class, &["overhead"]));
            match fixed {
                Some(class) if quantities(class, FIXED) != quantities(object, OVERHEAD) => {
                    Err(forbidden(request.attributes, object, OVERHEAD_DIFFERS))
                }
                None if has(object, OVERHEAD) || object.has_empty_map(OVERHEAD) => {
                    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                    Err(forbidden(request.attributes, object, why))
                }
                _ => Ok(()),
            }
        })
    }
}

const FIXED: &[&str] = &["overhead", "podFixed"];
const OVERHEAD: &[&str] = &["spec", "overhead"];

fn set_overhead(attributes: &Attributes, pod: &mut Value, class: &Value) -> Result<(), Status> {
    if !has(class, &["overhead"]) {
        return Ok(());
    }
    let given = quantities(pod, OVERHEAD);
    if !given.is_empty() && given != quantities(class, FIXED) {
        return Err(forbidden(attributes, pod, OVERHEAD_DIFFERS));
    }
    let spec = pod.make_at(&["spec"]);
    match class.at(FIXED).filter(|fixed| !fixed.is_null()) {
        Some(fixed) => spec.insert("overhead", fixed.clone()),
        None => spec.remove("overhead"),
    };
    Ok(())
}

fn set_scheduling(attributes: &Attributes, pod: &mut Value, class: &Value) -> Result<(), Status> {
    if !has(class, &["scheduling"]) {
        return Ok(());
    }
    let empty = Object::new();
    for (key, value) in class.object_at(&["scheduling", "nodeSelector"]).unwrap_or(&empty).iter() {
        let value = value.as_str().unwrap_or("");
        if let Some(own) = pod.at(&["spec", "nodeSelector", key]).and_then(Value::as_str)
            && own != value
        {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(forbidden(attributes, pod, why));
        }
        pod.make_at(&["spec", "nodeSelector"]).insert(key.clone(), value);
    }
    let own = pod.list_at(&["spec", "tolerations"]);
    let merged = tolerations::merge(own, class.list_at(&["scheduling", "tolerations"]));
    if !merged.is_empty() {
        pod.make_at(&["spec"]).insert("tolerations", merged);
    }
    Ok(())
}

fn has(object: &Value, path: &[&str]) -> bool {
    object.at(path).is_some_and(|value| !value.is_null())
}

/// Returns the amounts, which compare regardless of their notation.
fn quantities(object: &Value, path: &[&str]) -> BTreeMap<String, Option<Quantity>> {
    let members = object.object_at(path).into_iter().flat_map(Object::iter);
    members.map(|(name, value)| (name.to_string(), value.as_str().and_then(|text| text.parse().ok()))).collect()
}
