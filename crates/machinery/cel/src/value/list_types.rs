//! Equality and sums of sets and list maps.
//!
//! kube-apiserver looks up elements by Go equality of its representation: strings as in JSON, and key names as written
//! in expressions. Elements that it does not find this way are not found here either.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema as schema;

use super::{List, Map, Val, equal};
use crate::decl_type::{DeclType, ListKind, Shape, escape};
use crate::error::Error;
use crate::meter::Meter;

/// Returns true if `a` and `b` have the same number of elements, and `a` contains every element of `b`.
pub(super) fn equal_sets(meter: &Meter, a: &List<'_>, b: &List<'_>) -> Result<bool, Error> {
    meter.list(a.len())?;
    elements_of_set(a)?;
    for item in b.iter() {
        if !has(meter, a, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if `b` has as many elements as `a`, each equal to the last one with the same keys in `a`.
pub(super) fn equal_list_maps(meter: &Meter, a: &List<'_>, b: &List<'_>, keys: &[Text]) -> Result<bool, Error> {
    meter.list(a.len())?;
    let keys = escaped(keys);
    let values: Vec<Val<'_>> = a.iter().collect::<Result<_, _>>()?;
    for item in b.iter() {
        let item = item?;
        let Some(i) = position(meter, &values, &item, &keys)? else { return Ok(false) };
        if !equal(meter, &values[i], &item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns `a + b` by the list type: sets gain missing elements, list maps are merged by key. The result has the same
/// list type.
pub(crate) fn add_lists<'a>(meter: &Meter, a: List<'a>, b: List<'a>) -> Result<List<'a>, Error> {
    let Some((ty, kind)) = a.decl().and_then(|ty| Some((ty, kind(ty)?))) else { return a.join(meter, b) };
    meter.list(a.len())?;
    let values = match kind {
        ListKind::Atomic => return a.join(meter, b),
        ListKind::Set => {
            let mut values = elements_of_set(&a)?;
            let len = values.len();
            for item in b.iter() {
                let item = item?;
                if !has(meter, &a, &item)? && !contains(meter, &values[len..], &item)? {
                    values.push(item);
                }
            }
            values
        }
        ListKind::Map(keys) => {
            let keys = escaped(keys);
            let mut values: Vec<Val<'a>> = a.iter().collect::<Result<_, _>>()?;
            let len = values.len();
            for item in b.iter() {
                let item = item?;
                match position(meter, &values[..len], &item, &keys)? {
                    Some(i) => values[i] = item,
                    None => values.push(item),
                }
            }
            values
        }
    };
    meter.list(values.len())?;
    Ok(List::Merged(Arc::new(values.into()), ty))
}

fn kind(ty: &DeclType) -> Option<&ListKind> {
    match &ty.shape {
        Shape::List { kind, .. } => Some(kind),
        _ => None,
    }
}

/// Returns the elements of a set.
///
/// # Errors
/// If they are lists or maps, which kube-apiserver cannot store in a set.
fn elements_of_set<'a>(set: &List<'a>) -> Result<Vec<Val<'a>>, Error> {
    let values: Vec<Val<'a>> = set.iter().collect::<Result<_, _>>()?;
    let name = values.iter().find_map(|value| match value {
        Val::List(_) => Some("[]interface {}"),
        Val::Map(_) => Some("map[string]interface {}"),
        _ => None,
    });
    name.map_or(Ok(values), |name| Err(unhashable(name)))
}

fn unhashable(name: &str) -> Error {
    Error::new(format!("internal error: runtime error: hash of unhashable type {name}"))
}

/// Returns true if an item is among the elements of a set that can be found.
fn has(meter: &Meter, set: &List<'_>, item: &Val<'_>) -> Result<bool, Error> {
    if matches!(item, Val::Bytes(_)) {
        return Err(unhashable("[]uint8"));
    }
    for i in 0..set.len() {
        if is_findable(set, i) && equal(meter, &set.get(i)?, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if an element has the same value in expressions as in JSON. A string with a time format does not:
/// expressions see a timestamp.
fn is_findable(set: &List<'_>, index: usize) -> bool {
    let List::Tree(items, Some(DeclType { shape: Shape::List { element, .. }, .. })) = set else { return true };
    match element.shape {
        Shape::Date | Shape::DateTime | Shape::Duration => false,
        Shape::Double => !matches!(items[index], schema::Value::Int(_)),
        _ => true,
    }
}

fn contains(meter: &Meter, values: &[Val<'_>], item: &Val<'_>) -> Result<bool, Error> {
    for value in values {
        if equal(meter, value, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the names by which keys are looked up.
fn escaped(keys: &[Text]) -> Vec<Text> {
    keys.iter().map(|key| escape(key).unwrap_or_else(|| key.clone())).collect()
}

/// Returns the index of the last value with the same keys as `item`.
fn position(meter: &Meter, values: &[Val<'_>], item: &Val<'_>, keys: &[Text]) -> Result<Option<usize>, Error> {
    // Objects that an expression created have no keys.
    let Val::Map(Map::Tree(item, _)) = item else { return Ok(None) };
    let key_values: Vec<Option<&schema::Value>> = keys.iter().map(|name| key(item, name)).collect();
    let bytes = key_values.iter().flatten().filter_map(|value| value.as_str()).map(str::len).sum::<usize>();
    let steps = 1 + keys.len() as u64 + bytes as u64 / 64;
    for (i, value) in values.iter().enumerate().rev() {
        meter.work(steps)?;
        let Val::Map(Map::Tree(object, _)) = value else { continue };
        if keys.iter().zip(&key_values).all(|(name, key_values)| key(object, name) == *key_values) {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// Returns a key of an element, `None` if it is missing or null.
fn key<'v>(object: &'v schema::Object, name: &Text) -> Option<&'v schema::Value> {
    object.get(name).filter(|value| !value.is_null())
}
