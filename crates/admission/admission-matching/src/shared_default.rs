//! Defaults that mutating webhooks and policies see before the kind's strategy sets them.

use binnacle_schema::Value;

use crate::Subject;

/// A default that was set in an object temporarily; see
/// [`Strategy::shared_default`](binnacle_scheme::Strategy::shared_default).
#[derive(Debug, Default)]
#[must_use = "the default must be hidden again"]
pub struct SharedDefault(Option<&'static [&'static str]>);

impl SharedDefault {
    /// Sets the default in an object of the request, unless the object has the field.
    pub fn show(subject: &Subject<'_>, object: &mut Value) -> Self {
        let kind = &subject.attributes.kind;
        let Some(resource) = subject.snapshot.find_kind(&kind.group, &kind.version, &kind.kind) else {
            return Self(None);
        };
        let Some((path, value)) = resource.collection.kind.strategy.shared_default(object) else { return Self(None) };
        put(object, path, Some(value));
        Self(Some(path))
    }

    /// Removes the default again, from an object that no webhook or policy has replaced.
    pub fn hide(self, object: &mut Value) {
        if let Self(Some(path)) = self {
            put(object, path, None);
        }
    }
}

fn put(object: &mut Value, path: &[&str], value: Option<Value>) {
    let Some((name, parents)) = path.split_last() else { return };
    let parent = object.make_at(parents);
    match value {
        Some(value) => drop(parent.insert(*name, value)),
        None => drop(parent.remove(name)),
    }
}
