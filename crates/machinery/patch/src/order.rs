//! A total order of values, for comparison and look-up.

use std::cmp::Ordering;

use binnacle_meta::Text;
use binnacle_schema::{Object, Value, json};
use binnacle_work::pace;

/// A value that is ordered by [`order`], but an integer differs from a float with the same value, as in Go.
#[derive(Clone, Debug)]
pub(crate) struct OrderedValue(pub(crate) Value);

impl Ord for OrderedValue {
    fn cmp(&self, other: &Self) -> Ordering {
        let is_float = |value: &Value| matches!(value, Value::Float(_));
        order(&self.0, &other.0).then_with(|| is_float(&self.0).cmp(&is_float(&other.0)))
    }
}

impl PartialOrd for OrderedValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedValue {}

/// Returns true if two values are equal; integers and floats are equal by value.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => *a as f64 == *b,
        (Value::List(a), Value::List(b)) => {
            pace(a.len() as u64);
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            pace(a.len() as u64);
            // Usually both have the same members in the same order.
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|((name, a), (other, found))| {
                    if name == other { same(a, found) } else { b.get(name).is_some_and(|b| same(a, b)) }
                })
        }
        (Value::Raw(_), Value::Object(_) | Value::List(_)) | (Value::Object(_) | Value::List(_), Value::Raw(_)) => {
            same(&unpacked(a), &unpacked(b))
        }
        (Value::Raw(left), Value::Raw(right)) => left == right || unpacked(a) == unpacked(b),
        _ => a == b,
    }
}

/// Copies a value with raw JSON text parsed.
fn unpacked(value: &Value) -> Value {
    let mut value = value.clone();
    json::unpack(&mut value);
    value
}

/// Compares values: numbers, strings, booleans, lists, objects, null.
pub(crate) fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let number = |value: &Value| value.as_f64().unwrap_or_default();
            number(a).total_cmp(&number(b))
        }
        (Value::Str(a) | Value::Raw(a), Value::Str(b) | Value::Raw(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            pace(a.len() as u64);
            let first = a.iter().zip(b).map(|(a, b)| order(a, b)).find(|ordering| ordering.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let sorted = |object: &Object| {
                let mut members: Vec<(Text, Value)> = object.iter().map(|(n, v)| (n.clone(), v.clone())).collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                members
            };
            pace(20 * (a.len() + b.len()) as u64);
            let (a, b) = (sorted(a), sorted(b));
            let first = a.iter().zip(&b).map(|(a, b)| a.0.cmp(&b.0).then_with(|| order(&a.1, &b.1)));
            first.into_iter().find(|ordering| ordering.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::Str(_) | Value::Raw(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
