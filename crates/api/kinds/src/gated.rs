//! Fields that belong to feature gates: while a gate is off, its fields are dropped from written objects, unless the
//! old object has one of them (so that turning a gate off does not break objects that use it).

use binnacle_fields::{FieldMut, FieldRef, Route, Step};
use binnacle_schema::Value;

use crate::Features;

/// A feature gate and its fields in a structure of type `M`.
pub(crate) struct GatedFields<M: 'static> {
    pub(crate) feature: &'static str,
    pub(crate) fields: &'static [Route<M>],
}

/// Drops the fields of features that are off and not in use by the old structure.
pub(crate) fn drop_disabled<M>(
    features: &Features,
    object: &mut FieldMut<M>,
    old: Option<FieldRef<M>>,
    gated: &[GatedFields<M>],
) {
    drop_unless(object, old, gated, |gate| features.enabled(gate));
}

fn drop_unless<M>(
    object: &mut FieldMut<M>,
    old: Option<FieldRef<M>>,
    gated: &[GatedFields<M>],
    enabled: impl Fn(&str) -> bool,
) {
    for GatedFields { fields, .. } in gated.iter().filter(|gated| !enabled(gated.feature)) {
        if !old.is_some_and(|old| fields.iter().any(|route| in_use(old, *route))) {
            fields.iter().for_each(|route| remove(object.value(), route.steps()));
        }
    }
}

/// Returns true if there is a value at the end of a route, other than an empty list.
pub(crate) fn in_use<M>(object: FieldRef<M>, route: Route<M>) -> bool {
    has_value(object.value(), route.steps())
}

fn has_value(value: &Value, steps: &[Step]) -> bool {
    let [step, rest @ ..] = steps else {
        return !value.is_null() && value.as_list().is_none_or(|items| !items.is_empty());
    };
    match value.get(step.name) {
        None => false,
        Some(Value::List(items)) if step.repeated => items.iter().any(|item| has_value(item, rest)),
        Some(Value::Object(members)) if step.repeated => members.values().any(|member| has_value(member, rest)),
        Some(member) => has_value(member, rest),
    }
}

fn remove(value: &mut Value, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else { return };
    let Some(members) = value.as_object_mut() else { return };
    if rest.is_empty() {
        members.remove(step.name);
        return;
    }
    match members.get_mut(step.name) {
        Some(Value::List(items)) if step.repeated => items.iter_mut().for_each(|item| remove(item, rest)),
        Some(Value::Object(members)) if step.repeated => members.iter_mut().for_each(|(_, m)| remove(m, rest)),
        Some(member) => remove(member, rest),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_fields::core::v1::{Container, PodSpec, ResourceRequirements};
    use binnacle_fields::route;
    use binnacle_schema::value;

    #[test]
    fn keeps_disabled_fields_only_if_in_use() {
        const GATED: &[GatedFields<PodSpec>] = &[GatedFields {
            feature: "F",
            fields: &[
                route![PodSpec::CONTAINERS, Container::RESOURCES, ResourceRequirements::CLAIMS],
                route![PodSpec::RESOURCE_CLAIMS],
            ],
        }];
        let given = value!({"containers": [{"name": "a", "resources": {"claims": [{}]}}], "resourceClaims": []});
        let dropped = value!({"containers": [{"name": "a", "resources": {}}]});
        let empty = value!({"resourceClaims": [], "containers": [{"resources": null}]});
        let used = value!({"resourceClaims": [{}]});
        for (old, on, want) in [
            (None, false, &dropped),
            (None, true, &given),
            (Some(&empty), false, &dropped),
            (Some(&used), false, &given),
        ] {
            let mut object = given.clone();
            drop_unless(&mut FieldMut::root(&mut object), old.map(FieldRef::root), GATED, |_| on);
            assert_eq!(&object, want, "{old:?}");
        }
    }
}
