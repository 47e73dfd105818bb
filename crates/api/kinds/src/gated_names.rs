//! Fields that belong to feature gates: while a gate is off, its fields are dropped from written objects, unless the
//! old object has one of them (so that turning a gate off does not break objects that use it).

use binnacle_schema::Value;

use crate::Features;

/// A feature gate and the paths of its fields; `*` is every item of a list and every value of a map.
pub(crate) struct Gated {
    pub(crate) feature: &'static str,
    pub(crate) fields: &'static [&'static [&'static str]],
}

/// Drops the fields of features that are off and not in use by the old object.
pub(crate) fn drop_disabled(features: &Features, object: &mut Value, old: Option<&Value>, gated: &[Gated]) {
    drop_unless(object, old, gated, |gate| features.enabled(gate));
}

fn drop_unless(object: &mut Value, old: Option<&Value>, gated: &[Gated], enabled: impl Fn(&str) -> bool) {
    for Gated { fields, .. } in gated.iter().filter(|gated| !enabled(gated.feature)) {
        if !old.is_some_and(|old| fields.iter().any(|field| in_use(old, field))) {
            fields.iter().for_each(|field| remove(object, field));
        }
    }
}

/// Returns true if there is a value at a path, other than an empty list.
pub(crate) fn in_use(value: &Value, path: &[&str]) -> bool {
    match (path, value) {
        ([], Value::Null) => false,
        ([], Value::List(items)) => !items.is_empty(),
        ([], _) => true,
        (["*", rest @ ..], Value::List(items)) => items.iter().any(|item| in_use(item, rest)),
        (["*", rest @ ..], Value::Object(members)) => members.values().any(|member| in_use(member, rest)),
        ([name, rest @ ..], _) => value.get(name).is_some_and(|member| in_use(member, rest)),
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    match (path, value) {
        ([name], Value::Object(members)) => drop(members.remove(name)),
        (["*", rest @ ..], Value::List(items)) => items.iter_mut().for_each(|item| remove(item, rest)),
        (["*", rest @ ..], Value::Object(members)) => members.iter_mut().for_each(|(_, member)| remove(member, rest)),
        ([name, rest @ ..], Value::Object(members)) => {
            if let Some(member) = members.get_mut(name) {
                remove(member, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn what_is_off_stays_only_where_it_was() {
        const GATED: &[Gated] =
            &[Gated { feature: "F", fields: &[&["list", "*", "a"], &["map", "*", "b"], &["plain"]] }];
        let given = value!({"list": [{"a": 1i64, "x": 1i64}], "map": {"k": {"b": 1i64}}, "plain": []});
        let dropped = value!({"list": [{"x": 1i64}], "map": {"k": {}}});
        let empty = value!({"plain": [], "list": [{"a": null}]});
        let used = value!({"map": {"other": {"b": {}}}});
        for (old, on, want) in [
            (None, false, &dropped),
            (None, true, &given),
            (Some(&empty), false, &dropped),
            (Some(&used), false, &given),
        ] {
            let mut object = given.clone();
            drop_unless(&mut object, old, GATED, |_| on);
            assert_eq!(&object, want, "{old:?}");
        }
    }
}
