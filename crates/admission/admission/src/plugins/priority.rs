//! Priority: resolves a pod's priority class to its number, and allows at most one default class.

use std::sync::Arc;

use binnacle_meta::{Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::lookup::{Freshness, Lookup, LookupKind, get_surely};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";

pub(crate) struct Priority {
    lookup: Arc<dyn Lookup>,
}

/// The fields that pods take from their class.
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
        if let Some(given) = pod.int_at(&["spec", "priority"])
            && given != class.value
        {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
                class.value
            );
            return Err(forbidden(attributes, pod, why));
        }
        let given = pod.str_at(&["spec", "preemptionPolicy"]);
        if !class.preemption_policy.is_empty() && !given.is_empty() && given != class.preemption_policy {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
                class.preemption_policy
            );
            return Err(forbidden(attributes, pod, why));
        }
        let spec = pod.make_at(&["spec"]);
        spec.insert("priority", class.value);
        if !class.name.is_empty() {
            spec.insert("priorityClassName", class.name);
        }
        if !class.preemption_policy.is_empty() {
            spec.insert("preemptionPolicy", class.preemption_policy);
        }
        Ok(())
    }

    async fn class_of(&self, attributes: &Attributes, pod: &Value) -> Result<Class, Status> {
        let name = pod.str_at(&["spec", "priorityClassName"]);
        if !name.is_empty() {
            return match get_surely(&*self.lookup, LookupKind::PriorityClass, "", name).await? {
                Some(class) => Ok(Class::of(&class)),
                None => Err(forbidden(attributes, pod, format!("no PriorityClass with name {name} was found"))),
            };
        }
        Ok(match self.default_class(Freshness::Cached).await? {
            Some(class) => Class::of(&class),
            None => {
                Class { name: Text::default(), value: 0, preemption_policy: Text::new_static(PREEMPT_LOWER_PRIORITY) }
            }
        })
    }

    /// Returns the default class with the lowest priority: a race may have created several.
    async fn default_class(&self, freshness: Freshness) -> Result<Option<Arc<Value>>, Status> {
        let classes = self.lookup.list(LookupKind::PriorityClass, "", freshness).await?;
        let defaults = classes.into_iter().filter(|class| class.bool_at(&["globalDefault"]));
        Ok(defaults.min_by_key(|class| class.int_at(&["value"]).unwrap_or(0)))
    }
}

impl Class {
    fn of(class: &Value) -> Self {
        Self {
            name: class.str_at(&["metadata", "name"]).into(),
            value: class.int_at(&["value"]).unwrap_or(0),
            preemption_policy: class.str_at(&["preemptionPolicy"]).into(),
        }
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
            // Clients that do not know the computed members omit them.
            for member in ["priority", "preemptionPolicy"] {
                let kept = old.at(&["spec", member]).filter(|value| !value.is_null());
                let spec = object.make_at(&["spec"]);
                if let Some(kept) = kept
                    && spec.get(member).is_none_or(Value::is_null)
                {
                    spec.insert(member, kept.clone());
                }
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if !object.bool_at(&["globalDefault"]) {
                return Ok(());
            }
            let Some(default) = self.default_class(Freshness::Consistent).await? else { return Ok(()) };
            let name = default.str_at(&["metadata", "name"]);
            if request.is_update() && name == object.str_at(&["metadata", "name"]) {
                return Ok(());
            }
            let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(forbidden(request.attributes, object, why))
        })
    }
}
