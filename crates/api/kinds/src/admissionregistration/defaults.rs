//! Defaults of the structs that webhooks and policies share.

use binnacle_schema::{Object, Value};

use crate::prepare::default_to;

/// Sets the defaults of `matchResources`.
pub(super) fn match_resources(resources: &mut Object) {
    matching(resources);
    for list in ["resourceRules", "excludeResourceRules"] {
        rules(resources, list);
    }
}

/// Sets the match policy and the selectors of webhooks and policies.
pub(super) fn matching(members: &mut Object) {
    default_to(members, "matchPolicy", "Equivalent");
    default_to(members, "namespaceSelector", Object::new());
    default_to(members, "objectSelector", Object::new());
}

/// Sets the default scope of rules, which matches resources of either scope.
pub(super) fn rules(members: &mut Object, list: &str) {
    for rule in members.get_mut(list).and_then(Value::as_list_mut).into_iter().flatten() {
        default_to(rule.make_object(), "scope", "*");
    }
}
