//! Strategic merge patch compared with its specification, on random objects and patches of built-in kinds.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use binnacle_kinds::tables;
use binnacle_patch::strategic;
use binnacle_schema::{Field, Message, Object, Ty, Value, json};

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    /// Generates random members, fewer at greater depth. With `nulls`, as for a patch, some of them are null.
    fn object(&mut self, message: &Message, depth: u64, nulls: bool) -> Object {
        let mut object = Object::new();
        for field in message.fields.iter() {
            if self.below(3 + 4 * depth) > 1 {
                continue;
            }
            if nulls && self.below(6) == 0 {
                object.insert(field.name.clone(), Value::Null);
            } else if let Some(value) = self.value(&field.ty, Some(field), depth, nulls) {
                object.insert(field.name.clone(), value);
            }
        }
        object
    }

    fn value(&mut self, ty: &Ty, field: Option<&Field>, depth: u64, nulls: bool) -> Option<Value> {
        if let Some(element) = ty.element() {
            return Some(Value::List(self.list(element, field, depth, nulls)));
        }
        if let Some(inner) = ty.map_value() {
            // Maps of structs cannot be merged, as kube-apiserver finds no fields in them.
            if inner.message().is_some() || inner.element().is_some() {
                return None;
            }
            let mut map = Object::new();
            for key in ["a", "b", "c"] {
                match self.below(if nulls { 4 } else { 3 }) {
                    0 => {}
                    3 => drop(map.insert(key, Value::Null)),
                    _ => drop(map.insert(key, self.value(inner, None, depth, nulls)?)),
                }
            }
            return Some(Value::Object(map));
        }
        Some(match ty {
            Ty::Message(message) if depth < 6 => Value::Object(self.object(message, depth + 1, nulls)),
            Ty::Bool => Value::Bool(self.below(2) == 0),
            Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::IntOrString => Value::Int(self.below(4) as i64),
            Ty::Double => Value::Float(0.5),
            Ty::String | Ty::Bytes | Ty::Time | Ty::MicroTime | Ty::Duration | Ty::Quantity => {
                Value::from(["x", "y", "z"][self.below(3) as usize])
            }
            _ => return None,
        })
    }

    /// Generates random elements of one type, with distinct keys if they are merged.
    fn list(&mut self, element: &Ty, field: Option<&Field>, depth: u64, nulls: bool) -> Vec<Value> {
        let key = field.filter(|field| field.patch.merge).map(|field| field.patch.merge_key.as_str());
        let mut items: Vec<Value> = Vec::new();
        for n in 0..self.below(4) {
            let Some(mut item) = self.value(element, None, depth, nulls) else { continue };
            match (key, &mut item) {
                (Some(key), Value::Object(object)) if !key.is_empty() => {
                    object.insert(key, format!("k{}", n * 2 + self.below(2)).as_str());
                }
                (Some(""), scalar) if items.contains(scalar) => continue,
                _ => {}
            }
            items.push(item);
        }
        items
    }
}

/// The specification: maps are merged, `null` removes, lists with that strategy are merged by key or as sets, other
/// values replace.
fn definition(live: &Object, patch: &Object, message: Option<&Message>) -> Object {
    let mut merged = live.clone();
    for (name, change) in patch.iter() {
        let field = message.and_then(|message| message.get(name));
        let strategy = field.map(|field| &field.patch);
        let value = match (live.get(name), change) {
            (_, Value::Null) => {
                merged.remove(name);
                continue;
            }
            (Some(Value::Object(live)), Value::Object(change)) if !strategy.is_some_and(|s| s.replace && !s.merge) => {
                Value::Object(definition(live, change, field.and_then(|field| field.ty.message())))
            }
            (Some(Value::List(live)), Value::List(change)) if strategy.is_some_and(|s| s.merge) => {
                let field = field.unwrap();
                Value::List(merged_list(live, change, field.ty.element().unwrap(), &field.patch.merge_key))
            }
            _ => change.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

fn merged_list(live: &[Value], patch: &[Value], element: &Ty, key: &str) -> Vec<Value> {
    let mut merged = live.to_vec();
    for change in patch {
        let same = |item: &Value| match key {
            "" => item == change,
            key => item.get(key) == change.get(key),
        };
        match merged.iter().position(same) {
            Some(at) => {
                if let (Value::Object(live), Value::Object(change)) = (&merged[at], change) {
                    merged[at] = Value::Object(definition(live, change, element.message()));
                }
            }
            None => merged.push(change.clone()),
        }
    }
    merged
}

/// Removes nulls, which typed objects do not have, and sorts merged lists by the text of their elements, because the
/// specification does not define their order.
fn comparable(value: &mut Value, message: Option<&Message>) {
    let Value::Object(object) = value else { return };
    object.retain(|_, member| !member.is_null());
    for (name, member) in object.iter_mut() {
        let field = message.and_then(|message| message.get(name));
        match member {
            Value::List(items) => {
                let element = field.and_then(|field| field.ty.element()).and_then(Ty::message);
                items.iter_mut().for_each(|item| comparable(item, element));
                if field.is_some_and(|field| field.patch.merge) {
                    items.sort_by_cached_key(json::to_string);
                }
            }
            _ => comparable(member, field.and_then(|field| field.ty.message())),
        }
    }
}

#[test]
fn random_patches_match_the_specification() {
    let mut random = Random(17);
    let mut merged_something = 0;
    for (group, version, kind) in [
        ("", "v1", "Pod"),
        ("", "v1", "Service"),
        ("", "v1", "Node"),
        ("", "v1", "ConfigMap"),
        ("", "v1", "ServiceAccount"),
        ("apps", "v1", "Deployment"),
        ("apps", "v1", "StatefulSet"),
        ("batch", "v1", "Job"),
        ("networking.k8s.io", "v1", "Ingress"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        ("storage.k8s.io", "v1", "CSINode"),
        ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    ] {
        let message = tables::kind(group, version, kind).unwrap();
        for round in 0..300 {
            let live = random.object(message, 0, false);
            let patch = random.object(message, 0, true);
            let shown = || {
                format!(
                    "{kind} {round}:\n{}\n{}",
                    json::to_string(&Value::Object(live.clone())),
                    json::to_string(&Value::Object(patch.clone()))
                )
            };
            let normal = |value: &Value| {
                let mut value = value.clone();
                binnacle_schema::sort_free_form(&mut value);
                comparable(&mut value, Some(message));
                json::to_string(&value)
            };
            let patch_value = Value::Object(patch.clone());
            let got = strategic::apply(Value::Object(live.clone()), &patch_value, message);
            let got = got.unwrap_or_else(|error| panic!("{error:?}: {}", shown()));
            let want = Value::Object(definition(&live, &patch, Some(message)));
            assert_eq!(normal(&got), normal(&want), "{}", shown());
            merged_something += usize::from(normal(&got) != normal(&Value::Object(live.clone())));
            let again = strategic::apply(got.clone(), &patch_value, message).unwrap();
            assert_eq!(normal(&again), normal(&got), "a second time changes nothing: {}", shown());
        }
    }
    assert!(merged_something > 1000, "{merged_something}");
}
