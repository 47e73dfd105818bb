//! Correlation: finds the old value that a new one replaces, if the schema allows it, and compares the two.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use binnacle_schema::{Object, Value};
use binnacle_work::{charge, charge_bytes};

use crate::structural::{ListType, SchemaType, Structural};
use crate::weight::{charge_lookup, equal};

/// A new value, the old value that it replaces, and their schema.
#[derive(Clone, Copy, Debug)]
pub struct CorrelatedObject<'v> {
    pub new: &'v Value,
    pub old: &'v Value,
    schema: &'v Structural,
    cache: &'v ComparisonCache<'v>,
}

/// A cache of comparisons between two objects. Values are identified by their addresses.
#[derive(Debug, Default)]
pub struct ComparisonCache<'v> {
    equal: RefCell<HashMap<*const Value, bool>>,
    lists: RefCell<HashMap<*const Value, Rc<MapList<'v>>>>,
    /// True while values are compared.
    comparing: Cell<bool>,
    /// The time spent comparing.
    spent: Cell<Duration>,
}

impl ComparisonCache<'_> {
    /// Returns the time spent comparing so far.
    pub fn spent(&self) -> Duration {
        self.spent.get()
    }

    /// Returns the current time, unless an enclosing comparison is already timed.
    fn begin(&self) -> Option<Instant> {
        (!self.comparing.replace(true)).then(Instant::now)
    }
}

/// The elements of a list map by their keys; of several with the same keys, the first.
#[derive(Debug, Default)]
pub(crate) struct MapList<'v> {
    by_key: HashMap<Vec<Key<'v>>, &'v Value>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key<'v> {
    Bool(bool),
    Int(i64),
    Float(u64),
    Str(&'v str),
}

impl<'v> CorrelatedObject<'v> {
    pub fn new(new: &'v Value, old: &'v Value, schema: &'v Structural, cache: &'v ComparisonCache<'v>) -> Self {
        Self { new, old, schema, cache }
    }

    /// Returns the member of a name, if both objects and the schema have it.
    pub fn key(&self, name: &str) -> Option<Self> {
        charge(4).ok()?;
        self.old.as_object().into_iter().for_each(|old| charge_lookup(old, name));
        let (new, old) = (self.new.get(name)?, self.old.get(name)?);
        Some(Self { new, old, schema: self.schema.member(name)?, cache: self.cache })
    }

    /// Returns the element at an index of the new list, if the old list has an element with the same keys.
    pub fn index(&self, index: usize) -> Option<Self> {
        charge(4 + 4 * self.schema.list_map_keys.len() as u64).ok()?;
        let new = self.new.as_list()?.get(index)?;
        let old = self.map_list()?.get(new, self.schema)?;
        Some(Self { new, old, schema: self.schema.items.as_deref()?, cache: self.cache })
    }

    /// Returns true if no correlated value has changed. Values without a schema count as changed.
    pub fn is_unchanged(&self) -> bool {
        let address: *const Value = self.new;
        if let Some(cache) = self.cache.equal.borrow().get(&address) {
            return *cache;
        }
        let started = self.cache.begin();
        let same = self.compare();
        if let Some(started) = started {
            self.cache.comparing.set(false);
            self.cache.spent.set(self.cache.spent.get() + started.elapsed());
        }
        self.cache.equal.borrow_mut().insert(address, same);
        same
    }

    fn compare(&self) -> bool {
        match (self.new, self.old) {
            (Value::List(new), Value::List(old)) => {
                if new.len() != old.len() || self.schema.list_type != Some(ListType::Map) {
                    return equal(self.new, self.old);
                }
                (0..new.len()).all(|i| self.index(i).is_some_and(|element| element.is_unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(|member| member.is_unchanged()))
            }
            (new, old) => equal(new, old),
        }
    }

    fn map_list(&self) -> Option<Rc<MapList<'v>>> {
        let old = self.old.as_list()?;
        if self.schema.list_type != Some(ListType::Map) {
            return None;
        }
        let address: *const Value = self.old;
        let cache = self.cache.lists.borrow().get(&address).cloned();
        Some(cache.unwrap_or_else(|| {
            let list = Rc::new(MapList::of(old, self.schema));
            self.cache.lists.borrow_mut().insert(address, list.clone());
            list
        }))
    }
}

impl<'v> MapList<'v> {
    /// Indexes the elements of a list map; the index of other lists is empty.
    pub(crate) fn of(items: &'v [Value], schema: &Structural) -> Self {
        let mut list = Self::default();
        if !schema.is(&SchemaType::Array) || schema.list_type != Some(ListType::Map) || schema.list_map_keys.is_empty()
        {
            return list;
        }
        for item in items {
            if charge(4 + 4 * schema.list_map_keys.len() as u64).is_err() {
                return list;
            }
            if let Some(key) = item.as_object().and_then(|item| key(item, schema)) {
                list.by_key.entry(key).or_insert(item);
            }
        }
        list
    }

    pub(crate) fn get(&self, element: &Value, schema: &Structural) -> Option<&'v Value> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&key(element.as_object()?, schema)?).copied()
    }
}

/// Returns `None` if a key is missing or not a scalar.
fn key<'v>(element: &'v Object, schema: &Structural) -> Option<Vec<Key<'v>>> {
    let scalar = |name: &binnacle_meta::Text| match element.get(name)? {
        Value::Bool(b) => Some(Key::Bool(*b)),
        Value::Int(n) => Some(Key::Int(*n)),
        Value::Float(n) => Some(Key::Float(n.to_bits())),
        Value::Str(text) => charge_bytes(text.len()).is_ok().then(|| Key::Str(text)),
        _ => None,
    };
    schema.list_map_keys.iter().map(scalar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::value;

    #[test]
    fn correlates_list_map_elements_by_key() {
        let schema = value!({"type": "object", "properties": {
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            }},
            "plain": {"type": "array", "items": {"type": "integer"}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        let old = value!({
            "list": [{"k": "a", "v": 1i64}, {"k": "b", "v": 2i64}], "plain": [1i64], "any": {"x": 1i64}, "empty": {},
        });
        let new = value!({
            "list": [{"k": "b", "v": 2i64}, {"k": "a", "v": 3i64}], "plain": [1i64], "any": {"x": 1i64}, "empty": {},
        });
        let cache = ComparisonCache::default();
        let root = CorrelatedObject::new(&new, &old, &schema, &cache);
        let list = root.key("list").unwrap();
        assert!(list.index(0).unwrap().is_unchanged() && !list.index(1).unwrap().is_unchanged());
        assert!(!list.is_unchanged() && root.key("plain").unwrap().is_unchanged());
        assert!(root.key("plain").unwrap().index(0).is_none() && root.key("empty").is_none());
        // Values without a schema count as changed.
        assert!(!root.key("any").unwrap().is_unchanged());
        let cache = ComparisonCache::default();
        let swapped = value!({"list": [{"k": "b", "v": 2i64}, {"k": "a", "v": 1i64}]});
        assert!(CorrelatedObject::new(&swapped, &old, &schema, &cache).key("list").unwrap().is_unchanged());
    }
}
