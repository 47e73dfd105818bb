//! Objects on their way to the store: as they were received, in the version of the request, and as they are written, in
//! the storage version. The lists and maps that stood there empty travel with them, beside the object of which they are no
//! part. They are gone once its rules have seen them.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use binnacle_schema::Value;
use binnacle_schema::decode::Empties;

use crate::notes::RequestNotes;

/// An object that a client sent: in the version of the request, with that version's defaults. Only
/// [`Resource::sent`](crate::Resource::sent) turns it into one that can be written.
#[derive(Clone, Debug)]
pub struct Received {
    object: Value,
    /// Of the request's version.
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

/// An object that holds nothing empty, with its defaults.
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

/// An object in the storage version that somebody sent, or that the server made itself and that holds nothing empty.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    object: Value,
    empties: Empties,
}

impl Sent {
    /// `empties` are those of the storage version.
    pub(crate) fn new(object: Value, mut empties: Empties) -> Self {
        empties.mark_items(&object);
        Self { object, empties }
    }

    /// Notes for admission which maps were sent empty.
    pub(crate) fn note_empties(&self, notes: &RequestNotes) {
        if self.empties.has_maps() {
            notes.note_empties(&self.empties);
        }
    }

    /// Gives the object back the lists that were sent empty: a kind can tell them when it prepares the object. Maps wait
    /// for the rules, since a struct that is there looks like one.
    pub(crate) fn restore_lists(&mut self) {
        self.empties.restore_lists(&mut self.object);
    }

    /// The object as the rules of its kind see it: with the maps, too, that were sent empty.
    pub(crate) fn as_judged(&self) -> Cow<'_, Value> {
        if !self.empties.has_maps() {
            return Cow::Borrowed(&self.object);
        }
        let mut object = self.object.clone();
        self.empties.restore_maps(&mut object);
        Cow::Owned(object)
    }

    /// The object without what was empty.
    pub(crate) fn into_object(mut self) -> Value {
        self.withdraw_empties();
        self.object
    }

    /// Takes out again what was empty: it is no part of the object.
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
