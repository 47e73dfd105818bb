//! Priority: resolves the priority class of pods, and allows at most one default class.

use std::sync::Arc;

use binnacle_fields::core::v1::{Pod, PodSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::scheduling::v1::PriorityClass;
use binnacle_fields::types::Field;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::pod;
use crate::lookup::{Freshness, Lookup, LookupKind, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";

pub(crate) struct Priority {
    lookup: Arc<dyn Lookup>,
}

/// The fields that pods get from their class.
struct Class {
    name: Text,
    value: i64,
    preemption_policy: Text,
}

impl Priority {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    async fn create_pod(&self, attributes: &Attributes, pod: &mut Value) -> Result<(), Status> {
        let class = self.class_of(attributes, pod).await?;
        if let Some(given) = pod::spec(pod).at(PodSpec::PRIORITY).int()
            && given != class.value
        {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
                class.value
            );
            return Err(forbidden(attributes, pod, why));
        }
        let given = pod::spec(pod).at(PodSpec::PREEMPTION_POLICY).str();
        if !class.preemption_policy.is_empty() && !given.is_empty() && given != class.preemption_policy {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
                class.preemption_policy
            );
            return Err(forbidden(attributes, pod, why));
        }
        let mut pod = FieldMut::<Pod>::root(pod);
        let mut spec = pod.entry(Pod::SPEC);
        spec.set(PodSpec::PRIORITY, class.value);
        if !class.name.is_empty() {
            spec.set(PodSpec::PRIORITY_CLASS_NAME, class.name);
        }
        if !class.preemption_policy.is_empty() {
            spec.set(PodSpec::PREEMPTION_POLICY, class.preemption_policy);
        }
        Ok(())
    }

    async fn class_of(&self, attributes: &Attributes, pod: &Value) -> Result<Class, Status> {
        let name = pod::spec(pod).at(PodSpec::PRIORITY_CLASS_NAME).str();
        if !name.is_empty() {
            return match get_cached_or_stored(&*self.lookup, LookupKind::PriorityClass, "", name).await? {
                Some(class) => Ok(Class::of(FieldRef::root(&class))),
                None => Err(forbidden(attributes, pod, format!("no PriorityClass with name {name} was found"))),
            };
        }
        Ok(match self.default_class(Freshness::Cached).await? {
            Some(class) => Class::of(FieldRef::root(&class)),
            None => {
                Class { name: Text::default(), value: 0, preemption_policy: Text::new_static(PREEMPT_LOWER_PRIORITY) }
            }
        })
    }

    /// Returns the default class with the lowest priority, since a race may have created several.
    async fn default_class(&self, freshness: Freshness) -> Result<Option<Arc<Value>>, Status> {
        let classes = self.lookup.list(LookupKind::PriorityClass, "", freshness).await?;
        let defaults = classes.into_iter().filter(|class| is_default(class));
        Ok(defaults.min_by_key(|class| FieldRef::<PriorityClass>::root(class).at(PriorityClass::VALUE).int_or_zero()))
    }
}

impl Class {
    fn of(class: FieldRef<PriorityClass>) -> Self {
        Self {
            name: class.at(PriorityClass::METADATA).at(ObjectMeta::NAME).str().into(),
            value: class.at(PriorityClass::VALUE).int_or_zero(),
            preemption_policy: class.at(PriorityClass::PREEMPTION_POLICY).str().into(),
        }
    }
}

fn is_default(class: &Value) -> bool {
    FieldRef::<PriorityClass>::root(class).at(PriorityClass::GLOBAL_DEFAULT).bool()
}

/// Restores a field to its value in the old object if it is absent in the new one.
fn keep_old_value<T>(spec: &mut FieldMut<PodSpec>, old: FieldRef<PodSpec>, field: Field<PodSpec, T>) {
    if spec.is_nil(field)
        && let Some(value) = old.at(field).get()
    {
        spec.set(field, value.clone());
    }
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        writes
            && match stage {
                Stage::Mutate => is_resource(attributes, "", "pods"),
                Stage::Validate => is_resource(attributes, "scheduling.k8s.io", "priorityclasses"),
            }
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(old) = request.old else { return self.create_pod(request.attributes, object).await };
            // Old clients omit the computed fields.
            let mut pod = FieldMut::<Pod>::root(object);
            let mut spec = pod.entry(Pod::SPEC);
            keep_old_value(&mut spec, pod::spec(old), PodSpec::PRIORITY);
            keep_old_value(&mut spec, pod::spec(old), PodSpec::PREEMPTION_POLICY);
            Ok(())
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if !is_default(object) {
                return Ok(());
            }
            let Some(default) = self.default_class(Freshness::Consistent).await? else { return Ok(()) };
            let name = metadata(&default).at(ObjectMeta::NAME).str();
            if request.is_update() && name == metadata(object).at(ObjectMeta::NAME).str() {
                return Ok(());
            }
            let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(forbidden(request.attributes, object, why))
        })
    }
}
