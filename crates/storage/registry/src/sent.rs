//! Objects to be written: as received, in the version of the request, and as sent to the store, in the storage version.
//! Empty lists and maps are not part of an object, and are kept beside it until it has been validated.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use binnacle_schema::Value;
use binnacle_schema::decode::Empties;

use crate::notes::RequestNotes;

/// An object that a client sent, in the version of the request, with that version's defaults. Only
/// [`Resource::sent`](crate::Resource::sent) converts it for a write.
#[derive(Clone, Debug)]
pub struct Received {
    object: Value,
    /// In the request's version.
    empties: Empties,
}

impl Received {
    pub(crate) fn new(object: Value, empties: Empties) -> Self {
        Self { object, empties }
    }

    pub(crate) fn into_parts(self) -> (Value, Empties) {
        (self.object, self.empties)
    }
}

/// An object without empty lists and maps, with its defaults.
impl From<Value> for Received {
    fn from(object: Value) -> Self {
        Self { object, empties: Empties::default() }
    }
}

impl Deref for Received {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

impl DerefMut for Received {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.object
    }
}

/// An object to be written, in the storage version. An object that the server made has no empty lists and maps.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    object: Value,
    empties: Empties,
}

impl Sent {
    /// Returns an object with its empty lists and maps, in the storage version.
    pub(crate) fn new(object: Value, mut empties: Empties) -> Self {
        empties.mark_items(&object);
        Self { object, empties }
    }

    /// Records the empty maps for admission.
    pub(crate) fn note_empties(&self, notes: &RequestNotes) {
        if self.empties.has_maps() {
            notes.note_empties(&self.empties);
        }
    }

    /// Restores the empty lists, which matter to the kind's strategy when it prepares the object. Maps are restored
    /// only for validation, since an existing struct looks like an empty map.
    pub(crate) fn restore_lists(&mut self) {
        self.empties.restore_lists(&mut self.object);
    }

    /// Returns the object for validation, with its empty maps.
    pub(crate) fn as_judged(&self) -> Cow<'_, Value> {
        if !self.empties.has_maps() {
            return Cow::Borrowed(&self.object);
        }
        let mut object = self.object.clone();
        self.empties.restore_maps(&mut object);
        Cow::Owned(object)
    }

    /// Returns the object without empty lists and maps.
    pub(crate) fn into_object(mut self) -> Value {
        self.withdraw_empties();
        self.object
    }

    /// Removes the empty lists and maps, which are not part of the object.
    pub(crate) fn withdraw_empties(&mut self) {
        self.empties.withdraw(&mut self.object);
    }
}

impl From<Value> for Sent {
    fn from(object: Value) -> Self {
        Self { object, empties: Empties::default() }
    }
}

impl Deref for Sent {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

impl DerefMut for Sent {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.object
    }
}
