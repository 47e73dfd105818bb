//! Defaults of the structs that webhooks and policies share.

use binnacle_fields::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use binnacle_fields::meta::v1::LabelSelector;
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldMut, Message};
use binnacle_schema::{Object, Value};

/// Sets the defaults of `matchResources`.
pub(super) fn match_resources(mut resources: FieldMut<MatchResources>) {
    let selectors = [MatchResources::NAMESPACE_SELECTOR, MatchResources::OBJECT_SELECTOR];
    matching(&mut resources, MatchResources::MATCH_POLICY, selectors);
    for list in [MatchResources::RESOURCE_RULES, MatchResources::EXCLUDE_RESOURCE_RULES] {
        rules(&mut resources, list, NamedRuleWithOperations::SCOPE);
    }
}

/// Sets the match policy and the selectors of webhooks and policies.
pub(super) fn matching<M>(holder: &mut FieldMut<M>, policy: Field<M, Str>, selectors: [Field<M, LabelSelector>; 2]) {
    holder.default_nil(policy, "Equivalent");
    for selector in selectors {
        holder.default_nil(selector, Value::from(Object::new()));
    }
}

/// Sets the default scope of rules, which matches resources of either scope.
pub(super) fn rules<M, R: Message>(holder: &mut FieldMut<M>, list: Field<M, List<R>>, scope: Field<R, Str>) {
    for mut rule in holder.items(list) {
        rule.default_nil(scope, "*");
    }
}
