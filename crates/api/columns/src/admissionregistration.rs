//! The admissionregistration.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicySpec, ParamKind, ParamRef, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding as Binding, ValidatingAdmissionPolicyBindingSpec as BindingSpec,
    ValidatingAdmissionPolicySpec, ValidatingWebhookConfiguration as Webhooks,
};
use binnacle_fields::types;

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
    |object, now| {
        // It is stored in v1beta1, which has the same fields.
        let object = FieldRef::<MutatingAdmissionPolicy>::root(object);
        let spec = object.at(MutatingAdmissionPolicy::SPEC);
        let rules = spec.at(MutatingAdmissionPolicySpec::MUTATIONS).len();
        policy(object, rules, spec.at(MutatingAdmissionPolicySpec::PARAM_KIND), now)
    },
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
    |object, now| {
        let object = FieldRef::<ValidatingAdmissionPolicy>::root(object);
        let spec = object.at(ValidatingAdmissionPolicy::SPEC);
        let rules = spec.at(ValidatingAdmissionPolicySpec::VALIDATIONS).len();
        policy(object, rules, spec.at(ValidatingAdmissionPolicySpec::PARAM_KIND), now)
    },
);

const POLICY_BINDING: Columns = Columns::new(
    &[
        NAME,
        string("PolicyName", text("PolicyName indicates the policy definition which the policy binding binded to")),
        string("ParamRef", text("ParamRef indicates the param resource which sets the configuration param")),
        AGE,
    ],
    |object, now| {
        // Bindings of mutating policies have the same fields.
        let binding = FieldRef::<Binding>::root(object);
        let spec = binding.at(Binding::SPEC);
        let policy = spec.at(BindingSpec::POLICY_NAME).str();
        cells![name(binding), policy, param(spec.at(BindingSpec::PARAM_REF)), created(binding, now)]
    },
);

const WEBHOOKS: Columns = Columns::new(
    &[
        NAME,
        integer("Webhooks", text("Webhooks indicates the number of webhooks registered in this configuration")),
        AGE,
    ],
    |object, now| {
        // Mutating webhooks are in the same field.
        let object = FieldRef::<Webhooks>::root(object);
        cells![name(object), object.at(Webhooks::WEBHOOKS).len() as i64, created(object, now)]
    },
);

const PARAM_KIND: ColumnDefinition =
    string("ParamKind", text("ParamKind specifies the kind of resources used to parameterize this policy"));

fn policy<K: types::Kind>(policy: FieldRef<K>, rules: usize, param_kind: FieldRef<ParamKind>, now: Now) -> Cells {
    let param_kind = match param_kind.set() {
        Some(kind) => format!("{}/{}", kind.at(ParamKind::API_VERSION).str(), kind.at(ParamKind::KIND).str()),
        None => UNSET.into(),
    };
    cells![name(policy), rules as i64, param_kind, created(policy, now)]
}

/// Formats the `paramRef` of a binding: the name of an object, or a selector.
fn param(param: FieldRef<ParamRef>) -> String {
    match (param.at(ParamRef::NAMESPACE).str(), param.at(ParamRef::NAME).str()) {
        (_, "") => match param.at(ParamRef::SELECTOR).set() {
            Some(selector) => selector::go_string(selector),
            None => UNSET.into(),
        },
        // A binding does not specify whether the parameter is namespaced.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use crate::testing::check_cells;

    const GROUP: &str = "admissionregistration.k8s.io";

    #[test]
    fn prints_policies() {
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
    fn prints_policy_bindings() {
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
    fn prints_webhook_configurations() {
        let cases = [
            (value!({}), value!(["", 0i64, "<unknown>"])),
            (value!({"metadata": {"name": "a"}, "webhooks": [{}, {}]}), value!(["a", 2i64, "<unknown>"])),
        ];
        check_cells(GROUP, "ValidatingWebhookConfiguration", cases.clone());
        check_cells(GROUP, "MutatingWebhookConfiguration", cases);
    }
}
