//! Equality and order of values.

use std::cmp::Ordering;

use binnacle_schema as schema;

use super::{List, Map, Val, list_types};
use crate::decl_type::{DeclType, ListKind, Shape};
use crate::error::Error;
use crate::meter::Meter;

/// Returns true if two values are equal: numbers are compared across types, values of other different types are never
/// equal.
///
/// # Errors
/// If the values are too large to compare.
pub(crate) fn equal(meter: &Meter, a: &Val<'_>, b: &Val<'_>) -> Result<bool, Error> {
    meter.work(1)?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Str(_) | Val::Bytes(_), Val::Str(_) | Val::Bytes(_)) if a.bytes() != b.bytes() => false,
        (Val::Str(text), Val::Str(other)) => {
            meter.work(a.bytes() as u64 / 64)?;
            **text == **other
        }
        (Val::Bytes(bytes), Val::Bytes(other)) => {
            meter.work(a.bytes() as u64 / 64)?;
            bytes == other
        }
        (Val::Timestamp(a), Val::Timestamp(b)) => a.cmp(b).is_eq(),
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::List(a), Val::List(b)) => stacker::maybe_grow(64 * 1024, 1024 * 1024, || lists(meter, a, b))?,
        (Val::Map(a), Val::Map(b)) => stacker::maybe_grow(64 * 1024, 1024 * 1024, || maps(meter, a, b))?,
        (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Optional(Some(a)), Val::Optional(Some(b))) => {
            stacker::maybe_grow(64 * 1024, 1024 * 1024, || equal(meter, a, b))?
        }
        (Val::Message(a), Val::Message(b)) => {
            if a.name != b.name || a.fields.len() != b.fields.len() {
                return Ok(false);
            }
            meter.work((a.fields.len() * a.fields.len()) as u64)?;
            for (name, value) in &a.fields {
                match b.fields.iter().find(|(other, _)| other == name) {
                    Some((_, other)) if stacker::maybe_grow(64 * 1024, 1024 * 1024, || equal(meter, value, other))? => {
                    }
                    _ => return Ok(false),
                }
            }
            true
        }
        (Val::Type(a), Val::Type(b)) => a.name() == b.name(),
        (Val::Opaque(a), Val::Opaque(b)) => a.equals(&**b),
        (a, b) => numbers(a, b) == Some(Ordering::Equal),
    })
}

/// Returns true if two values are not equal; in cel-go, values that cannot be compared are not.
pub(crate) fn unequal(meter: &Meter, a: &Val<'_>, b: &Val<'_>) -> Result<bool, Error> {
    match equal(meter, a, b) {
        Err(error) if error.is_no_such_overload() => Ok(true),
        equal => equal.map(|equal| !equal),
    }
}

fn lists(meter: &Meter, a: &List<'_>, b: &List<'_>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.decl().map(|ty| &ty.shape) {
        Some(Shape::List { kind: ListKind::Set, .. }) => list_types::equal_sets(meter, a, b),
        Some(Shape::List { kind: ListKind::Map(keys), .. }) => list_types::equal_list_maps(meter, a, b, keys),
        _ => {
            let height = a.height() + b.height();
            for i in 0..a.len() {
                meter.work(height)?;
                if !equal(meter, &a.get(i)?, &b.get(i)?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

fn maps(meter: &Meter, a: &Map<'_>, b: &Map<'_>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for key in a.keys_charged(meter)? {
        meter.key(&key)?;
        let same = match (a.find(&key)?, b.find(&key)?) {
            (Some(a), Some(b)) => equal(meter, &a, &b)?,
            (a, b) => a.is_none() && b.is_none(),
        };
        if !same {
            return Ok(false);
        }
    }
    // Undeclared members are compared as untyped values, and only with those of another object with a schema.
    if let (Map::Tree(a, Some(DeclType { shape: Shape::Object(ty), .. })), Map::Tree(b, other)) = (a, b) {
        for (name, value) in a.iter().filter(|(name, _)| ty.field_by_json_name(name).is_none()) {
            charge_tree(meter, value)?;
            if other.is_none() {
                return Err(Error::no_such_overload());
            }
            if b.get(name).is_some_and(|other| other != value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Charges the comparison of a tree.
fn charge_tree(meter: &Meter, tree: &schema::Value) -> Result<(), Error> {
    meter.work(1)?;
    stacker::maybe_grow(64 * 1024, 1024 * 1024, || match tree {
        schema::Value::Str(text) | schema::Value::Raw(text) => meter.work(text.len() as u64 / 64),
        schema::Value::List(items) => items.iter().try_for_each(|item| charge_tree(meter, item)),
        schema::Value::Object(object) => object.iter().try_for_each(|(_, value)| charge_tree(meter, value)),
        _ => Ok(()),
    })
}

/// Returns the order of two numbers, `None` for others and for NaN.
fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    Some(match (a, b) {
        (Val::Int(a), Val::Int(b)) => a.cmp(b),
        (Val::Uint(a), Val::Uint(b)) => a.cmp(b),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b)?,
        (Val::Int(a), Val::Uint(b)) => u64::try_from(*a).map_or(Ordering::Less, |a| a.cmp(b)),
        (Val::Double(a), Val::Int(b)) => (*a).partial_cmp(&(*b as f64))?,
        (Val::Double(a), Val::Uint(b)) => (*a).partial_cmp(&(*b as f64))?,
        (Val::Uint(_), Val::Int(_)) | (Val::Int(_) | Val::Uint(_), Val::Double(_)) => numbers(b, a)?.reverse(),
        _ => return None,
    })
}

/// Returns the order of two values of the same ordered type.
///
/// # Errors
/// For values without an order.
pub(crate) fn compare(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, Error> {
    let nan = |value: &Val<'_>| matches!(value, Val::Double(n) if n.is_nan());
    if nan(a) || (nan(b) && matches!(a, Val::Int(_) | Val::Uint(_) | Val::Double(_))) {
        return Err(Error::new("NaN values cannot be ordered"));
    }
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Ok(a.cmp(b)),
        (Val::Str(a), Val::Str(b)) => Ok((**a).cmp(&**b)),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Ok(a.cmp(b)),
        (Val::Duration(a), Val::Duration(b)) => Ok(a.cmp(b)),
        (a, b) => numbers(a, b).ok_or_else(Error::no_such_overload),
    }
}
