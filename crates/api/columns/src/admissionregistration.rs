//! The admissionregistration.k8s.io group.

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, ColumnDefinition, Columns, Kind, cells, integer, string, text};
use crate::format::UNSET;
use crate::metadata::{AGE, NAME, created, name};
use crate::selector;

pub(crate) const KINDS: &[Kind] = &[
    ("MutatingAdmissionPolicy", &MUTATING_POLICY),
    ("MutatingAdmissionPolicyBinding", &POLICY_BINDING),
    ("MutatingWebhookConfiguration", &WEBHOOKS),
    ("ValidatingAdmissionPolicy", &VALIDATING_POLICY),
    ("ValidatingAdmissionPolicyBinding", &POLICY_BINDING),
    ("ValidatingWebhookConfiguration", &WEBHOOKS),
];

const MUTATING_POLICY: Columns = Columns::new(
    &[
        NAME,
        integer("Mutations", text("Mutation indicates the number of mutations rules defined in this configuration")),
        PARAM_KIND,
        AGE,
    ],
    |object, now| policy(object, "mutations", now),
);

const VALIDATING_POLICY: Columns = Columns::new(
    &[
        NAME,
        integer(
            "Validations",
            text("Validations indicates the number of validation rules defined in this configuration"),
        ),
        PARAM_KIND,
        AGE,
    ],
    |object, now| policy(object, "validations", now),
);

const POLICY_BINDING: Columns = Columns::new(
    &[
        NAME,
        string("PolicyName", text("PolicyName indicates the policy definition which the policy binding binded to")),
        string("ParamRef", text("ParamRef indicates the param resource which sets the configuration param")),
        AGE,
    ],
    |object, now| {
        let policy = object.str_at(&["spec", "policyName"]);
        cells![name(object), policy, param(object), created(object, now)]
    },
);

const WEBHOOKS: Columns = Columns::new(
    &[
        NAME,
        integer("Webhooks", text("Webhooks indicates the number of webhooks registered in this configuration")),
        AGE,
    ],
    |object, now| cells![name(object), object.list_at(&["webhooks"]).len() as i64, created(object, now)],
);

const PARAM_KIND: ColumnDefinition =
    string("ParamKind", text("ParamKind specifies the kind of resources used to parameterize this policy"));

fn policy(object: &Value, rules: &str, now: Now) -> Cells {
    let param_kind = match object.at(&["spec", "paramKind"]).filter(|kind| !kind.is_null()) {
        Some(kind) => format!("{}/{}", kind.str_at(&["apiVersion"]), kind.str_at(&["kind"])),
        None => UNSET.into(),
    };
    let rules = object.list_at(&["spec", rules]).len() as i64;
    cells![name(object), rules, param_kind, created(object, now)]
}

/// Formats the reference of a binding to its parameters: one object, or all that a selector selects.
fn param(object: &Value) -> String {
    let Some(param) = object.at(&["spec", "paramRef"]) else { return UNSET.into() };
    match (param.str_at(&["namespace"]), param.str_at(&["name"])) {
        (_, "") => match param.at(&["selector"]).filter(|selector| !selector.is_null()) {
            Some(selector) => selector::go_string(selector),
            None => UNSET.into(),
        },
        // The binding does not tell if the parameter is namespaced.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    const GROUP: &str = "admissionregistration.k8s.io";

    #[test]
    fn policies() {
        let cases = |rules: &str| {
            let rules = Value::Object(
                [(rules, value!([{}, {}])), ("paramKind", value!({"apiVersion": "v1", "kind": "ConfigMap"}))]
                    .into_iter()
                    .collect(),
            );
            [
                (value!({}), value!(["", 0i64, "<unset>", "<unknown>"])),
                (value!({"metadata": {"name": "a"}, "spec": rules}), value!(["a", 2i64, "v1/ConfigMap", "<unknown>"])),
            ]
        };
        check_cells(GROUP, "ValidatingAdmissionPolicy", cases("validations"));
        check_cells(GROUP, "MutatingAdmissionPolicy", cases("mutations"));
    }

    #[test]
    fn bindings() {
        let binding =
            |param: Value| value!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": param}});
        let selected =
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}";
        let cases = [
            (value!({}), value!(["", "", "<unset>", "<unknown>"])),
            (binding(value!({"name": "n"})), value!(["b", "p", "*/n", "<unknown>"])),
            (binding(value!({"name": "n", "namespace": "ns"})), value!(["b", "p", "ns/n", "<unknown>"])),
            (binding(value!({"selector": {"matchLabels": {"a": "b"}}})), value!(["b", "p", selected, "<unknown>"])),
            (binding(value!({})), value!(["b", "p", "<unset>", "<unknown>"])),
        ];
        check_cells(GROUP, "ValidatingAdmissionPolicyBinding", cases.clone());
        check_cells(GROUP, "MutatingAdmissionPolicyBinding", cases);
    }

    #[test]
    fn webhooks() {
        let cases = [
            (value!({}), value!(["", 0i64, "<unknown>"])),
            (value!({"metadata": {"name": "a"}, "webhooks": [{}, {}]}), value!(["a", 2i64, "<unknown>"])),
        ];
        check_cells(GROUP, "ValidatingWebhookConfiguration", cases.clone());
        check_cells(GROUP, "MutatingWebhookConfiguration", cases);
    }
}
