//! Pruning of fields that a manager no longer applies and no other manager owns.

use binnacle_meta::Text;
use binnacle_schema::{Object, Value};

use super::managed::Entry;
use super::schema_error::SchemaErrors;
use super::set::Set;
use super::shape::Shape;
use super::{Apply, field_set, merging, track};

/// An object with the schema of its version.
struct VersionedObject<'m> {
    value: Value,
    shape: Shape<'m>,
}

/// Returns `merged` without the fields of `last`, the manager's previous set, that no entry (including the manager's
/// new one) owns.
pub(super) fn prune(request: &Apply<'_>, merged: Value, entries: &mut [Entry], last: Entry) -> Result<Value, String> {
    if last.owns_nothing() {
        return Ok(merged);
    }
    let (update, version) = (&request.update, last.api_version.clone());
    let last = last.into_set();
    // Usually a manager drops no fields.
    let own = entries.last_mut().map(|own| own.set().clone()).unwrap_or_default();
    if version == update.api_version && last == own {
        return Ok(merged);
    }
    let last_version = in_version(request, &merged, update.api_version, &version)
        .map_err(|errors| format!("failed to convert merged object to last applied version: {errors}"))?;
    let Some(merged) = last_version else { return Ok(merged) };
    let named = last.clone().with_named_fields(Some(merged.shape));
    let pruned = VersionedObject { value: without_fields(&merged, &named), shape: merged.shape };
    let pruned = add_back_owned(request, &merged, pruned, &version, entries)
        .map_err(|why| format!("failed add back owned items: {why}"))?;
    let pruned = add_back_dangling(&merged, &pruned, last);
    let back = in_version(request, &pruned, &version, update.api_version).map_err(|errors| errors.to_string())?;
    back.map(|back| back.value).ok_or_else(|| format!("failed to convert pruned object to {}", update.api_version))
}

/// Restores the fields that any manager owns, version by version.
fn add_back_owned<'m>(
    request: &Apply<'m>,
    merged: &VersionedObject<'m>,
    mut pruned: VersionedObject<'m>,
    version: &str,
    entries: &mut [Entry],
) -> Result<VersionedObject<'m>, String> {
    let mut owned: Vec<(Text, Set)> = vec![(version.into(), Set::default())];
    for entry in entries {
        match owned.iter_mut().find(|(version, _)| *version == entry.api_version) {
            Some((_, set)) => *set = set.union(entry.set()),
            None => owned.push((entry.api_version.clone(), entry.set().clone())),
        }
    }
    for (other_version, owned) in owned {
        if owned.is_empty() {
            continue;
        }
        let converted = |role: &str, object: &VersionedObject<'_>| {
            in_version(request, &object.value, version, &other_version)
                .map_err(|errors| format!("failed to convert {role} object at version {other_version}: {errors}"))
        };
        let (whole, part) = (converted("merged", merged)?, converted("pruned", &pruned)?);
        let (Some(whole), Some(part)) = (whole, part) else { continue };
        let shape = Some(whole.shape);
        let remaining = field_set::of_value(part.shape, &part.value).with_named_fields(shape);
        let remaining = remaining.union(&owned.with_named_fields(shape));
        let dropped = field_set::of_value(whole.shape, &whole.value).with_named_fields(shape).difference(&remaining);
        let value = without_fields(&whole, &dropped);
        let back = in_version(request, &value, &other_version, version)
            .map_err(|errors| format!("failed to convert pruned object at version {version}: {errors}"))?;
        let back = back.ok_or_else(|| format!("cannot convert to {version}"))?;
        pruned = VersionedObject { value: back.value, shape: merged.shape };
    }
    Ok(pruned)
}

/// Restores the fields that the manager did not own itself, such as elements that others added to its lists.
fn add_back_dangling(merged: &VersionedObject<'_>, pruned: &VersionedObject<'_>, last: Set) -> Value {
    let shape = Some(merged.shape);
    let remaining = field_set::of_value(pruned.shape, &pruned.value).with_named_fields(shape);
    let dropped = field_set::of_value(merged.shape, &merged.value).with_named_fields(shape).difference(&remaining);
    without_fields(merged, &dropped.intersection(&last.with_named_fields(shape)))
}

fn without_fields(object: &VersionedObject<'_>, fields: &Set) -> Value {
    merging::remove(object.shape, &object.value, fields).unwrap_or_else(|| Value::Object(Object::new()))
}

/// Returns the object in another version; `None` if that is no longer served.
fn in_version<'m>(
    request: &Apply<'m>,
    value: &Value,
    from: &str,
    to: &str,
) -> Result<Option<VersionedObject<'m>>, SchemaErrors> {
    if to == request.update.api_version && from == to {
        return Ok(Some(VersionedObject { value: value.clone(), shape: Shape::of_message(request.update.message) }));
    }
    let converted = track::converted(request.versions, value, to)?;
    Ok(converted.map(|(value, message)| VersionedObject { value, shape: Shape::of_message(message) }))
}
