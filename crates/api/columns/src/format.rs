//! Texts that the cells of several groups share.

use binnacle_schema::{Object, Value};

use crate::columns::{ColumnDefinition, string, text};

pub(crate) const NONE: &str = "<none>";
pub(crate) const UNSET: &str = "<unset>";
pub(crate) const UNKNOWN: &str = "<unknown>";

/// The two wide columns for the containers of a pod template; [`containers`] returns their cells.
pub(crate) const CONTAINERS: ColumnDefinition =
    string("Containers", text("Names of each container in the template.")).wide();
pub(crate) const IMAGES: ColumnDefinition =
    string("Images", text("Images referenced by each container in the template.")).wide();

/// Returns names and images of the containers of a pod spec.
pub(crate) fn containers(pod_spec: Option<&Value>) -> (String, String) {
    let containers = pod_spec.map_or(&[][..], |spec| spec.list_at(&["containers"]));
    let all = |member| join(containers.iter().map(|container| container.str_at(&[member])), ",");
    (all("name"), all("image"))
}

/// Returns the text at a path, or `other` if it is absent or empty.
pub(crate) fn text_or<'o>(object: &'o Value, path: &[&str], other: &'o str) -> &'o str {
    non_empty(object.str_at(path), other)
}

pub(crate) fn non_empty<'t>(text: &'t str, other: &'t str) -> &'t str {
    if text.is_empty() { other } else { text }
}

/// Returns the text at a path, even if it is empty, or `other` if it is absent: a pointer in Go.
pub(crate) fn pointer_or<'o>(object: &'o Value, path: &[&str], other: &'o str) -> &'o str {
    object.at(path).and_then(Value::as_str).unwrap_or(other)
}

/// Returns the boolean at a path, or `other` if it is absent.
pub(crate) fn bool_or(object: &Value, path: &[&str], other: bool) -> bool {
    object.at(path).and_then(Value::as_bool).unwrap_or(other)
}

pub(crate) fn join<'t>(texts: impl IntoIterator<Item = &'t str>, separator: &str) -> String {
    texts.into_iter().collect::<Vec<_>>().join(separator)
}

/// Iterates over the strings of a list.
pub(crate) fn strings<'o>(object: &'o Value, path: &[&str]) -> impl Iterator<Item = &'o str> {
    object.list_at(path).iter().map(|item| item.as_str().unwrap_or(""))
}

/// Returns the quantity at a path, or `0` if it is absent: a missing entry of a map in Go.
pub(crate) fn quantity<'o>(object: &'o Value, path: &[&str]) -> &'o str {
    pointer_or(object, path, "0")
}

/// Returns the quantity at a path, or Go's notation of a nil pointer, as in kube-apiserver.
pub(crate) fn quantity_pointer<'o>(object: &'o Value, path: &[&str]) -> &'o str {
    pointer_or(object, path, "<nil>")
}

/// Formats labels as `a=1,b=2`, sorted; `<none>` if there are none.
pub(crate) fn labels(labels: Option<&Object>) -> String {
    let mut pairs: Vec<String> =
        labels.into_iter().flat_map(Object::iter).map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect();
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

/// Returns the first condition of a type among those at a path.
pub(crate) fn condition<'o>(object: &'o Value, path: &[&str], type_: &str) -> Option<&'o Value> {
    object.list_at(path).iter().find(|condition| condition.str_at(&["type"]) == type_)
}

/// Returns true if the status of a condition is `True`.
pub(crate) fn is_true(condition: &Value) -> bool {
    condition.str_at(&["status"]) == "True"
}

/// Formats the addresses in a load balancer's status, sorted, without duplicates; an IP precedes a host name.
pub(crate) fn load_balancer(object: &Value) -> String {
    let ingress = object.list_at(&["status", "loadBalancer", "ingress"]).iter();
    let addresses = ingress.map(|entry| text_or(entry, &["ip"], entry.str_at(&["hostname"])));
    let sorted: std::collections::BTreeSet<_> = addresses.filter(|address| !address.is_empty()).collect();
    join(sorted, ",")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn lists_with_more() {
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
    fn label_sets() {
        assert_eq!(labels(None), "<none>");
        assert_eq!(labels(value!({}).as_object()), "<none>");
        assert_eq!(labels(value!({"b": "2", "a": "1", "a-b": "", "a.b": "3"}).as_object()), "a-b=,a.b=3,a=1,b=2");
    }

    #[test]
    fn load_balancers() {
        let service = value!({"status": {"loadBalancer": {"ingress": [
            {"ip": "9.9.9.9"}, {"hostname": "b.test"}, {"ip": "1.1.1.1", "hostname": "a.test"}, {"ip": "9.9.9.9"}, {},
        ]}}});
        assert_eq!(load_balancer(&service), "1.1.1.1,9.9.9.9,b.test");
        assert_eq!(load_balancer(&Value::Null), "");
    }
}
