//! JSON merge patch.

use binnacle_patch::merge;
use binnacle_schema::{Limits, Object, Value, json};

use crate::objects;

/// The input is an object, a line break and a patch.
pub fn merge_patch(data: &[u8]) {
    let Some((live @ Value::Object(_), patch)) = objects::two(data) else { return };
    let Ok(patch @ Value::Object(_)) = json::parse(patch, &Limits::default()) else { return };
    let merged = merge::apply(live.clone(), &patch);
    assert!(objects::depth(&merged) <= objects::depth(&live).max(objects::depth(&patch)));
    // Below lists, kube-apiserver does not treat nulls as RFC 7386 does.
    if !has_lists(&live) && !has_lists(&patch) {
        assert_eq!(objects::sorted(&merged), objects::sorted(&definition(&live, &patch)), "as RFC 7386 defines it");
        let again = merge::apply(merged.clone(), &patch);
        assert_eq!(objects::sorted(&again), objects::sorted(&merged), "a second time changes nothing");
    }
}

/// A literal implementation of RFC 7386, section 2.
fn definition(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut result: Object = target.as_object().cloned().unwrap_or_default();
    for (name, value) in patch.iter() {
        if value.is_null() {
            result.remove(name);
        } else {
            let merged = definition(result.get(name).unwrap_or(&Value::Null), value);
            result.insert(name.clone(), merged);
        }
    }
    Value::Object(result)
}

fn has_lists(value: &Value) -> bool {
    match value {
        Value::List(_) => true,
        Value::Object(object) => object.values().any(has_lists),
        _ => false,
    }
}
