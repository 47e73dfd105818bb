//! Writing fields: defaults, and resets on create and update.

use std::marker::PhantomData;

use binnacle_schema::{Object, Value};

use crate::types::{List, Literal, Map};
use crate::{Field, FieldRef, Message, NULL, Route};

/// A mutable structure of type `M` in an object. If absent, the first write creates it.
pub struct FieldMut<'a, M> {
    value: &'a mut Value,
    marker: PhantomData<fn() -> M>,
}

impl<'a, M> FieldMut<'a, M> {
    /// Returns an object as a whole. The caller ensures that the type is correct.
    pub fn root(object: &'a mut Value) -> Self {
        Self { value: object, marker: PhantomData }
    }

    /// Reborrows the structure, for a call that consumes it.
    pub fn reborrow(&mut self) -> FieldMut<'_, M> {
        FieldMut::root(self.value)
    }

    pub fn value(&mut self) -> &mut Value {
        self.value
    }

    pub fn object(&mut self) -> &mut Object {
        self.value.make_object()
    }

    /// Returns the same structure as another message, under the conditions of [`FieldRef::cast`].
    pub fn cast<N>(self) -> FieldMut<'a, N> {
        FieldMut::root(self.value)
    }

    /// Returns the structure for reading.
    pub fn read(&self) -> FieldRef<'static, '_, M> {
        FieldRef::root(self.value)
    }

    /// Returns a field's value; null if absent.
    pub fn get<T>(&self, field: Field<M, T>) -> &Value {
        self.value.get(field.name()).unwrap_or(&NULL)
    }

    /// Returns a field's value for changes, unless absent.
    pub fn get_mut<T>(&mut self, field: Field<M, T>) -> Option<&mut Value> {
        self.value.get_mut(field.name())
    }

    /// Returns a field's text; `""` if absent.
    pub fn str<T: crate::types::TextType>(&self, field: Field<M, T>) -> &str {
        self.get(field).as_str().unwrap_or("")
    }

    /// Returns true if a field is absent or null, Go's nil.
    pub fn is_nil<T>(&self, field: Field<M, T>) -> bool {
        self.get(field).is_null()
    }

    pub fn set<T>(&mut self, field: Field<M, T>, value: impl Literal<T>) {
        self.object().insert(field.name(), value);
    }

    pub fn remove<T>(&mut self, field: Field<M, T>) -> Option<Value> {
        self.value.as_object_mut().and_then(|object| object.remove(field.name()))
    }

    /// Sets the default of a pointer field.
    pub fn default_nil<T>(&mut self, field: Field<M, T>, value: impl Literal<T>) {
        if self.is_nil(field) {
            self.set(field, value);
        }
    }

    /// Sets the default of a text or number that is not a pointer in Go.
    pub fn default_zero<T>(&mut self, field: Field<M, T>, value: impl Literal<T>) {
        let is_zero = match self.get(field) {
            Value::Null | Value::Int(0) => true,
            Value::Str(text) => text.is_empty(),
            _ => false,
        };
        if is_zero {
            self.set(field, value);
        }
    }

    /// Returns the structure in a field, which is created if there is none.
    pub fn entry<N: Message>(&mut self, field: Field<M, N>) -> FieldMut<'_, N> {
        self.reborrow().into_entry(field)
    }

    /// Like [`Self::entry`], for functions that return the structure.
    pub fn into_entry<N: Message>(self, field: Field<M, N>) -> FieldMut<'a, N> {
        let object = self.value.make_object();
        FieldMut::root(object.entry(field.name(), || Value::Object(Object::new())))
    }

    /// Returns the map in a field, which is created if there is none.
    pub fn map_entry<T>(&mut self, field: Field<M, Map<T>>) -> &mut Object {
        self.object().object_entry(field.name())
    }

    /// Returns the structure in a field, if there is one.
    pub fn structure<N: Message>(&mut self, field: Field<M, N>) -> Option<FieldMut<'_, N>> {
        self.get_mut(field).filter(|value| value.as_object().is_some()).map(FieldMut::root)
    }

    /// Returns the map in a field, if there is one.
    pub fn map<T>(&mut self, field: Field<M, Map<T>>) -> Option<&mut Object> {
        self.get_mut(field).and_then(Value::as_object_mut)
    }

    /// Returns the structures of a list.
    pub fn items<N: Message>(&mut self, field: Field<M, List<N>>) -> impl Iterator<Item = FieldMut<'_, N>> {
        let items = self.get_mut(field).and_then(Value::as_list_mut);
        items.into_iter().flatten().filter(|item| item.as_object().is_some()).map(FieldMut::root)
    }

    /// Restores a field to its value in the old object, for endpoints that may not change it.
    pub fn keep<T>(&mut self, old: FieldRef<M>, field: Field<M, T>) {
        match old.at(field).get() {
            Some(value) => drop(self.object().insert(field.name(), value.clone())),
            None => drop(self.remove(field)),
        }
    }

    /// Restores the field at the end of a route to its value in the old object.
    pub fn keep_at(&mut self, old: FieldRef<M>, route: Route<M>) {
        let Some((last, parents)) = route.steps().split_last() else { return };
        let old = route.steps().iter().try_fold(old.value(), |value, step| value.get(step.name));
        match old.filter(|value| !value.is_null()) {
            Some(value) => {
                let parent = parents.iter().fold(self.object(), |object, step| object.object_entry(step.name));
                parent.insert(last.name, value.clone());
            }
            None => self.remove_at(route),
        }
    }

    /// Restores a key of the map at the end of a route to its value in the old object.
    pub fn keep_key_at(&mut self, old: FieldRef<M>, route: Route<M>, key: &str) {
        let old = route.steps().iter().try_fold(old.value(), |value, step| value.get(step.name));
        match old.and_then(|map| map.get(key)).cloned() {
            Some(value) => {
                let map = route.steps().iter().fold(self.object(), |object, step| object.object_entry(step.name));
                map.insert(key, value);
            }
            None => {
                let map = route.steps().iter().try_fold(&mut *self.value, |value, step| value.get_mut(step.name));
                map.and_then(Value::as_object_mut).and_then(|map| map.remove(key));
            }
        }
    }

    /// Removes the field at the end of a route, if present.
    pub fn remove_at(&mut self, route: Route<M>) {
        let Some((last, parents)) = route.steps().split_last() else { return };
        let mut value = &mut *self.value;
        for step in parents {
            match value.get_mut(step.name) {
                Some(member) => value = member,
                None => return,
            }
        }
        if let Some(parent) = value.as_object_mut() {
            parent.remove(last.name);
        }
    }

    /// Returns the items of the list in a field, which is created if there is none.
    pub fn list_entry<T>(&mut self, field: Field<M, List<T>>) -> &mut Vec<Value> {
        let value = self.object().entry(field.name(), || Value::List(Vec::new()));
        if value.as_list().is_none() {
            *value = Value::List(Vec::new());
        }
        match value {
            Value::List(items) => items,
            _ => unreachable!("was made a list above"),
        }
    }

    /// Removes a field and returns its value, unless that was null.
    pub fn take<T>(&mut self, field: Field<M, T>) -> Option<Value> {
        self.remove(field).filter(|value| !value.is_null())
    }

    /// Returns a new structure, which starts empty.
    pub fn build(fill: impl FnOnce(FieldMut<M>)) -> Value {
        let mut value = Value::Object(Object::new());
        fill(FieldMut::root(&mut value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::v1::{Deployment, DeploymentSpec};
    use crate::meta::v1::ObjectMeta;
    use crate::route;
    use binnacle_schema::value;

    #[test]
    fn kept_fields_equal_those_of_the_old_object() {
        let old = value!({"spec": {"paused": true}, "status": null});
        let mut object = value!({"spec": {"paused": false, "replicas": 3i64}, "status": {"replicas": 1i64}});
        let mut deployment = FieldMut::<Deployment>::root(&mut object);
        let old = FieldRef::root(&old);
        deployment.keep(old, Deployment::STATUS);
        deployment.keep_at(old, route![Deployment::SPEC, DeploymentSpec::PAUSED]);
        deployment.keep_at(old, route![Deployment::SPEC, DeploymentSpec::REPLICAS]);
        deployment.keep_at(old, route![Deployment::METADATA, ObjectMeta::LABELS]);
        assert_eq!(object, value!({"spec": {"paused": true}}));
    }

    #[test]
    fn defaults_distinguish_nil_from_zero() {
        let mut object = value!({"replicas": 0i64, "minReadySeconds": 0i64});
        let mut spec = FieldMut::<DeploymentSpec>::root(&mut object);
        spec.default_nil(DeploymentSpec::REPLICAS, 1i64);
        spec.default_zero(DeploymentSpec::MIN_READY_SECONDS, 5i64);
        spec.default_nil(DeploymentSpec::REVISION_HISTORY_LIMIT, 10i64);
        assert_eq!(object, value!({"replicas": 0i64, "minReadySeconds": 5i64, "revisionHistoryLimit": 10i64}));
    }
}
