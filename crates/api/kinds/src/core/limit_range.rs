//! `LimitRange`: limits on the resources of single pods, containers or claims of a namespace.

mod validation;

use binnacle_fields::core::v1::{LimitRange as Range, LimitRangeItem as Limit, LimitRangeSpec as Spec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Map, Quantity};
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::pod_resources as resources;

use crate::{MetadataChecks, Strategy, StrategyContext};

type Amounts = Field<Limit, Map<Quantity>>;

const LISTS: [Amounts; 5] =
    [Limit::MAX, Limit::MIN, Limit::DEFAULT, Limit::DEFAULT_REQUEST, Limit::MAX_LIMIT_REQUEST_RATIO];

pub(super) struct LimitRange;

impl Strategy for LimitRange {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut limit_range = FieldMut::<Range>::root(object);
        let Some(mut spec) = limit_range.structure(Range::SPEC) else { return };
        for mut limit in spec.items(Spec::LIMITS) {
            if limit.str(Limit::TYPE) == "Container" {
                set_container_defaults(&mut limit);
            }
            for list in LISTS {
                if let Some(list) = limit.map(list) {
                    resources::round_up(list);
                }
            }
        }
    }

    /// The name of an object without `name` and `generateName` is a UUID, but not its uid.
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        let mut limit_range = FieldMut::<Range>::root(object);
        let mut metadata = limit_range.entry(Range::METADATA);
        if metadata.str(ObjectMeta::NAME).is_empty() {
            metadata.set(ObjectMeta::NAME, uuid::Uuid::new_v4().to_string());
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(FieldRef::root(object))
    }
}

/// Sets the default limit to the maximum, and the default request to the default limit or else the minimum.
fn set_container_defaults(limit: &mut FieldMut<Limit>) {
    fill(limit, Limit::DEFAULT, Limit::MAX);
    fill(limit, Limit::DEFAULT_REQUEST, Limit::DEFAULT);
    fill(limit, Limit::DEFAULT_REQUEST, Limit::MIN);
}

fn fill(limit: &mut FieldMut<Limit>, to: Amounts, from: Amounts) {
    let Some(source) = limit.get(from).as_object().cloned() else { return };
    let list = limit.map_entry(to);
    for (name, quantity) in source {
        list.entry(&name, || quantity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn sets_container_defaults() {
        let mut object = value!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "default": {"cpu": "1"}, "min": {"storage": "1"}},
            {"type": "Pod", "max": {"cpu": "100u"}}
        ]}});
        LimitRange.set_defaults("v1", &mut object);
        assert_eq!(
            object,
            value!({"spec": {"limits": [
                {
                    "type": "Container",
                    "max": {"cpu": "2", "memory": "1Gi"},
                    "min": {"storage": "1"},
                    "default": {"cpu": "1", "memory": "1Gi"},
                    "defaultRequest": {"cpu": "1", "memory": "1Gi", "storage": "1"}
                },
                {"type": "Pod", "max": {"cpu": "1m"}}
            ]}})
        );
    }
}
