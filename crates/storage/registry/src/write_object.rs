//! Objects to be written: in the request's version, and in the storage version.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use binnacle_meta::Status;
use binnacle_schema::Value;
use binnacle_schema::decode::EmptyFields;

/// An object of a request, in the request's version, with the defaults of that version. Only
/// [`Resource::to_write_object`](crate::Resource::to_write_object) converts it for a write. See [`WriteObject`] for the
/// parts besides the value.
#[derive(Clone, Debug)]
pub struct RequestObject {
    value: Value,
    /// The explicitly empty fields, with the paths of the request's version.
    explicitly_empty: EmptyFields,
    unpruned: bool,
}

impl RequestObject {
    pub(crate) fn new(value: Value, explicitly_empty: EmptyFields) -> Self {
        Self { value, explicitly_empty, unpruned: false }
    }

    /// Marks the object as unpruned, see [`WriteObject::mark_unpruned`].
    #[must_use]
    pub fn unpruned(self, unpruned: bool) -> Self {
        Self { unpruned, ..self }
    }

    /// Calls `track` with the object as server-side apply sees it in kube-apiserver: with the explicitly empty fields of
    /// items in atomic lists.
    pub fn with_fields_of_apply<T>(&mut self, track: impl FnOnce(&mut Value) -> T) -> T {
        self.explicitly_empty.restore_in_atomic_lists(&mut self.value);
        let result = track(&mut self.value);
        self.explicitly_empty.remove(&mut self.value);
        result
    }

    pub(crate) fn into_parts(self) -> (Value, EmptyFields, bool) {
        (self.value, self.explicitly_empty, self.unpruned)
    }
}

/// Creates an object without explicitly empty fields, with its defaults.
impl From<Value> for RequestObject {
    fn from(value: Value) -> Self {
        Self { value, explicitly_empty: EmptyFields::default(), unpruned: false }
    }
}

impl Deref for RequestObject {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl DerefMut for RequestObject {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.value
    }
}

/// An object that is going to be written, in the storage version. A [`StoredObject`](crate::StoredObject) is one that
/// has been written. An object that the server has created has no explicitly empty fields.
#[derive(Clone, Debug, Default)]
pub struct WriteObject {
    value: Value,
    /// The lists and maps that are empty in the request. They are not part of the object; Go distinguishes them from
    /// absent ones until the object is written.
    explicitly_empty: EmptyFields,
    unpruned: bool,
}

impl WriteObject {
    /// Returns an object with its explicitly empty fields, in the storage version.
    pub(crate) fn new(value: Value, mut explicitly_empty: EmptyFields) -> Self {
        explicitly_empty.mark_items(&value);
        Self { value, explicitly_empty, unpruned: false }
    }

    pub(crate) fn unpruned(self, unpruned: bool) -> Self {
        Self { unpruned, ..self }
    }

    /// Marks a custom object that admission or an apply has changed without pruning: until it is stored, it may have
    /// fields that are not in its schema, and metadata of any type.
    pub fn mark_unpruned(&mut self) {
        self.unpruned = true;
    }

    /// Returns true after [`WriteObject::mark_unpruned`].
    pub(crate) fn is_unpruned(&self) -> bool {
        self.unpruned
    }

    /// Returns true if the request had an empty map at this path.
    pub fn has_empty_map(&self, path: &[&str]) -> bool {
        self.explicitly_empty.holds_map(path)
    }

    /// Restores the empty lists, which matter to the kind's strategy when it prepares the object. Maps are only
    /// restored for validation, since an existing struct looks like an empty map.
    pub(crate) fn restore_lists(&mut self) {
        self.explicitly_empty.restore_lists(&mut self.value);
    }

    /// Returns the object for validation, with its empty maps.
    pub(crate) fn for_validation(&self) -> Cow<'_, Value> {
        if !self.explicitly_empty.has_maps() {
            return Cow::Borrowed(&self.value);
        }
        let mut value = self.value.clone();
        self.explicitly_empty.restore_maps(&mut value);
        Cow::Owned(value)
    }

    /// Returns the object without empty lists and maps.
    pub fn into_value(mut self) -> Value {
        self.remove_empty_fields();
        self.value
    }

    /// Removes the empty lists and maps, which are not part of the object.
    pub(crate) fn remove_empty_fields(&mut self) {
        self.explicitly_empty.remove(&mut self.value);
    }
}

impl From<Value> for WriteObject {
    fn from(value: Value) -> Self {
        Self { value, explicitly_empty: EmptyFields::default(), unpruned: false }
    }
}

impl Deref for WriteObject {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl DerefMut for WriteObject {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.value
    }
}

/// A function that returns the new object for the live one (`None` if there is none and it may be created), both in the
/// storage version. It is called again after a conflict.
pub type Change<'a> = dyn FnMut(Option<&Value>) -> Result<WriteObject, Status> + Send + 'a;
