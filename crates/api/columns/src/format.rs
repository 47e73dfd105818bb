//! Texts that the cells of several groups share.

use binnacle_fields::apiregistration::v1::APIServiceCondition;
use binnacle_fields::batch::v1::JobCondition;
use binnacle_fields::certificates::v1::CertificateSigningRequestCondition;
use binnacle_fields::core::v1::{
    ComponentCondition, Container, LoadBalancerIngress, NodeCondition, PodCondition, PodSpec, PodTemplateSpec,
};
use binnacle_fields::flowcontrol::v1::FlowSchemaCondition;
use binnacle_fields::types::{Field, List, Map, Message, Quantity, Str};
use binnacle_fields::{FieldRef, meta};

pub(crate) use crate::age::UNKNOWN;
use crate::columns::{ColumnDefinition, string, text};

pub(crate) const NONE: &str = "<none>";
pub(crate) const UNSET: &str = "<unset>";

/// The two wide columns for the containers of a pod template; [`containers`] returns their cells.
pub(crate) const CONTAINERS: ColumnDefinition =
    string("Containers", text("Names of each container in the template.")).wide();
pub(crate) const IMAGES: ColumnDefinition =
    string("Images", text("Images referenced by each container in the template.")).wide();

/// Returns names and images of the containers of a pod template.
pub(crate) fn containers(template: FieldRef<PodTemplateSpec>) -> (String, String) {
    let spec = template.at(PodTemplateSpec::SPEC);
    let containers = spec.at(PodSpec::CONTAINERS);
    let all = |field| join(containers.items().map(|container| container.at(field).str()), ",");
    (all(Container::NAME), all(Container::IMAGE))
}

/// Returns the text of a field, or `other` if it is absent or empty.
pub(crate) fn text_or<'v>(field: FieldRef<'_, 'v, Str>, other: &'v str) -> &'v str {
    non_empty(field.str(), other)
}

pub(crate) fn non_empty<'t>(text: &'t str, other: &'t str) -> &'t str {
    if text.is_empty() { other } else { text }
}

pub(crate) fn join<'t>(texts: impl IntoIterator<Item = &'t str>, separator: &str) -> String {
    texts.into_iter().collect::<Vec<_>>().join(separator)
}

/// Iterates over the strings of a list.
pub(crate) fn strings<'v>(list: FieldRef<'_, 'v, List<Str>>) -> impl Iterator<Item = &'v str> + use<'v> {
    list.list().iter().map(|item| item.as_str().unwrap_or(""))
}

/// Returns a quantity, or `0` if it is absent: a missing entry of a map in Go.
pub(crate) fn quantity<'v>(field: FieldRef<'_, 'v, Quantity>) -> &'v str {
    field.get_str().unwrap_or("0")
}

/// Returns a quantity, or Go's notation of a nil pointer, as in kube-apiserver.
pub(crate) fn quantity_pointer<'v>(field: FieldRef<'_, 'v, Quantity>) -> &'v str {
    field.get_str().unwrap_or("<nil>")
}

/// Formats labels as `a=1,b=2`, sorted; `<none>` if there are none.
pub(crate) fn labels(labels: FieldRef<Map<Str>>) -> String {
    let mut pairs: Vec<String> = labels.entries().map(|(key, value)| format!("{key}={}", value.str())).collect();
    pairs.sort_unstable();
    match pairs.join(",") {
        text if text.is_empty() => NONE.into(),
        text => text,
    }
}

/// Formats the first `max` texts and the number of further ones; `<unset>` if there are none.
pub(crate) fn with_more(texts: impl Iterator<Item = String>, max: usize) -> String {
    let mut shown = Vec::new();
    let mut more = 0usize;
    for text in texts {
        if shown.len() < max {
            shown.push(text);
        } else {
            more += 1;
        }
    }
    match shown.join(",") {
        text if more > 0 => format!("{text} + {more} more..."),
        text if text.is_empty() => UNSET.into(),
        text => text,
    }
}

/// A condition in a status.
pub(crate) trait Condition: Message + Sized {
    const TYPE: Field<Self, Str>;
    const STATUS: Field<Self, Str>;
}

macro_rules! conditions {
    ($($message:ty),* $(,)?) => {$(
        impl Condition for $message {
            const TYPE: Field<Self, Str> = Self::TYPE;
            const STATUS: Field<Self, Str> = Self::STATUS;
        }
    )*};
}

conditions!(
    meta::v1::Condition,
    APIServiceCondition,
    CertificateSigningRequestCondition,
    ComponentCondition,
    FlowSchemaCondition,
    JobCondition,
    NodeCondition,
    PodCondition,
);

/// Returns the first condition of a type.
pub(crate) fn condition<'l, 'v, C: Condition>(
    conditions: &'l FieldRef<'_, 'v, List<C>>,
    type_: &str,
) -> Option<FieldRef<'l, 'v, C>> {
    conditions.items().find(|condition| condition.at(C::TYPE).str() == type_)
}

/// Returns true if the status of a condition is `True`.
pub(crate) fn is_true<C: Condition>(condition: FieldRef<C>) -> bool {
    condition.at(C::STATUS).str() == "True"
}

/// Formats the addresses in a load balancer's status, sorted, without duplicates; an IP precedes a host name.
pub(crate) fn load_balancer(ingress: FieldRef<List<LoadBalancerIngress>>) -> String {
    let addresses = ingress
        .items()
        .map(|entry| text_or(entry.at(LoadBalancerIngress::IP), entry.at(LoadBalancerIngress::HOSTNAME).str()));
    let sorted: std::collections::BTreeSet<_> = addresses.filter(|address| !address.is_empty()).collect();
    join(sorted, ",")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;

    #[test]
    fn abbreviates_long_lists() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "<unset>"),
            (&[""], "<unset>"),
            (&["a"], "a"),
            (&["a", "b", "c"], "a,b,c"),
            (&["a", "b", "c", "d"], "a,b,c + 1 more..."),
            (&["a", "b", "c", "d", "e"], "a,b,c + 2 more..."),
        ];
        for (texts, want) in cases {
            assert_eq!(with_more(texts.iter().map(|t| t.to_string()), 3), *want);
        }
    }

    #[test]
    fn formats_label_sets() {
        assert_eq!(labels(FieldRef::root(&Value::Null)), "<none>");
        assert_eq!(labels(FieldRef::root(&value!({}))), "<none>");
        let several = value!({"b": "2", "a": "1", "a-b": "", "a.b": "3"});
        assert_eq!(labels(FieldRef::root(&several)), "a-b=,a.b=3,a=1,b=2");
    }

    #[test]
    fn formats_load_balancer_ingress() {
        let ingress = value!([
            {"ip": "9.9.9.9"}, {"hostname": "b.test"}, {"ip": "1.1.1.1", "hostname": "a.test"}, {"ip": "9.9.9.9"}, {},
        ]);
        assert_eq!(load_balancer(FieldRef::root(&ingress)), "1.1.1.1,9.9.9.9,b.test");
        assert_eq!(load_balancer(FieldRef::root(&Value::Null)), "");
    }
}
