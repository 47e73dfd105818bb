//! Interning of schemas: equal schemas share memory while they are in use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use binnacle_schema::Value;

use crate::pattern::{CompiledPatterns, Pattern};
use crate::structural::{AdditionalProperties, Alternatives, Structural, Values};

/// A pool of schemas. The versions of a resource, and resources with a common part in their schemas, share its nodes: a
/// node is looked up by its own keywords and the identity of its child nodes, which are interned first.
///
/// The table holds weak references; dead ones are removed when the table has doubled.
#[derive(Debug)]
pub struct Interner {
    nodes: Mutex<Table<Structural>>,
    patterns: Mutex<Table<Pattern>>,
    compiled: Arc<CompiledPatterns>,
    hashes: RandomState,
}

#[derive(Debug)]
struct Table<T> {
    /// Entries by hash. Of several with the same hash only the first is shared.
    by_hash: HashMap<u64, Weak<T>>,
    /// The number of entries at which dead ones are removed.
    sweep_at: usize,
}

/// The minimum of this number: smaller tables are not worth sweeping.
const SMALLEST_SWEEP: usize = 1024;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { by_hash: HashMap::new(), sweep_at: SMALLEST_SWEEP }
    }
}

impl<T> Table<T> {
    fn intern(&mut self, hash: u64, same: impl Fn(&T) -> bool, build: impl FnOnce() -> T) -> Arc<T> {
        if self.by_hash.len() >= self.sweep_at {
            self.sweep();
        }
        match self.by_hash.entry(hash) {
            Entry::Vacant(entry) => {
                let new = Arc::new(build());
                entry.insert(Arc::downgrade(&new));
                new
            }
            Entry::Occupied(mut entry) => match entry.get().upgrade() {
                Some(existing) if same(&existing) => existing,
                Some(_) => Arc::new(build()),
                None => {
                    let new = Arc::new(build());
                    entry.insert(Arc::downgrade(&new));
                    new
                }
            },
        }
    }

    fn sweep(&mut self) {
        self.by_hash.retain(|_, entry| entry.strong_count() > 0);
        self.by_hash.shrink_to_fit();
        self.sweep_at = (self.by_hash.len() * 2).max(SMALLEST_SWEEP);
    }
}

impl Default for Interner {
    fn default() -> Self {
        Self::new()
    }
}

impl Interner {
    pub fn new() -> Self {
        Self {
            nodes: Mutex::default(),
            patterns: Mutex::default(),
            compiled: Arc::default(),
            hashes: RandomState::new(),
        }
    }

    /// Returns the existing equal node, or this one.
    pub fn node(&self, node: Structural) -> Arc<Structural> {
        let hash = self.hash(&node);
        lock(&self.nodes).intern(hash, |existing| same(existing, &node), || node.clone())
    }

    pub(crate) fn pattern(&self, text: &str) -> Arc<Pattern> {
        let hash = self.hashes.hash_one(text);
        let build = || Pattern::new(text, self.compiled.clone());
        lock(&self.patterns).intern(hash, |existing| existing.as_str() == text, build)
    }

    /// Returns the number of nodes in use.
    pub fn len(&self) -> usize {
        let mut nodes = lock(&self.nodes);
        nodes.sweep();
        nodes.by_hash.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, node: &Structural) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        hash_node(node, &mut hasher);
        hasher.finish()
    }
}

/// After a panic inside the lock the table is consistent: entries are added last.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === Hashing of a node, with its child nodes by identity ===

fn identity<T: ?Sized>(shared: &Arc<T>, hasher: &mut impl Hasher) {
    Arc::as_ptr(shared).cast::<()>().hash(hasher);
}

fn hash_node(node: &Structural, hasher: &mut impl Hasher) {
    (&node.kind, node.nullable, node.preserve_unknown, node.embedded, node.int_or_string).hash(hasher);
    (node.list_type, node.map_type, &node.list_map_keys, &node.rules).hash(hasher);
    match &node.additional {
        AdditionalProperties::Unset => 0_u8.hash(hasher),
        AdditionalProperties::Any(any) => (1_u8, any).hash(hasher),
        AdditionalProperties::Schema(schema) => identity(schema, hasher),
    }
    if let Some(items) = &node.items {
        identity(items, hasher);
    }
    if let Some(default) = &node.default {
        hash_value(default, hasher);
    }
    node.properties.len().hash(hasher);
    for (name, property) in &node.properties {
        name.hash(hasher);
        identity(property, hasher);
    }
    if let Some(values) = &node.values {
        hash_values(values, hasher);
    }
}

fn hash_values(values: &Values, hasher: &mut impl Hasher) {
    values.format.as_ref().map(|format| format.as_str()).hash(hasher);
    (values.unique_items, &values.required, &values.sizes).hash(hasher);
    if let Some(numbers) = values.numbers() {
        [numbers.maximum, numbers.minimum, numbers.multiple_of].map(|n| n.map(f64::to_bits)).hash(hasher);
        (numbers.exclusive_maximum, numbers.exclusive_minimum).hash(hasher);
    }
    if let Some(pattern) = &values.pattern {
        identity(pattern, hasher);
    }
    values.enumeration.len().hash(hasher);
    values.enumeration.iter().for_each(|value| hash_value(value, hasher));
    if let Some(alternatives) = values.alternatives() {
        alternatives.iter().for_each(|nested| identity(nested, hasher));
    }
}

/// Hashes members of objects independent of their order, which equality ignores too.
fn hash_value(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(b) => (1_u8, b).hash(hasher),
        Value::Int(n) => (2_u8, n).hash(hasher),
        // The two zeros are equal.
        Value::Float(n) => (3_u8, (n + 0.0).to_bits()).hash(hasher),
        Value::Str(text) | Value::Raw(text) => (4_u8, text).hash(hasher),
        Value::List(items) => {
            (5_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Object(object) => (6_u8, object.len()).hash(hasher),
    }
}

fn same(a: &Structural, b: &Structural) -> bool {
    let additional = match (&a.additional, &b.additional) {
        (AdditionalProperties::Unset, AdditionalProperties::Unset) => true,
        (AdditionalProperties::Any(a), AdditionalProperties::Any(b)) => a == b,
        (AdditionalProperties::Schema(a), AdditionalProperties::Schema(b)) => Arc::ptr_eq(a, b),
        _ => false,
    };
    let properties = || {
        let pairs = a.properties.iter().zip(&b.properties);
        a.properties.len() == b.properties.len()
            && pairs.into_iter().all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1))
    };
    additional
        && a.kind == b.kind
        && (a.nullable, a.preserve_unknown, a.embedded, a.int_or_string)
            == (b.nullable, b.preserve_unknown, b.embedded, b.int_or_string)
        && (a.list_type, a.map_type) == (b.list_type, b.map_type)
        && a.list_map_keys == b.list_map_keys
        && a.rules == b.rules
        && a.default == b.default
        && both(a.items.as_ref(), b.items.as_ref(), Arc::ptr_eq)
        && properties()
        && both(a.values.as_deref(), b.values.as_deref(), same_values)
}

fn both<T>(a: Option<&T>, b: Option<&T>, same: impl FnOnce(&T, &T) -> bool) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => same(a, b),
        _ => false,
    }
}

fn same_values(a: &Values, b: &Values) -> bool {
    a.format.as_ref().map(|format| format.as_str()) == b.format.as_ref().map(|format| format.as_str())
        && a.unique_items == b.unique_items
        && (&a.sizes, &a.numbers, &a.required) == (&b.sizes, &b.numbers, &b.required)
        && a.enumeration == b.enumeration
        && both(a.pattern.as_ref(), b.pattern.as_ref(), Arc::ptr_eq)
        && both(a.alternatives(), b.alternatives(), same_alternatives)
}

fn same_alternatives(a: &Alternatives, b: &Alternatives) -> bool {
    let lists = [(&a.all_of, &b.all_of), (&a.any_of, &b.any_of), (&a.one_of, &b.one_of)];
    both(a.not.as_ref(), b.not.as_ref(), Arc::ptr_eq)
        && lists.iter().all(|(a, b)| a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| Arc::ptr_eq(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn shares_equal_schemas_until_the_last_one_is_dropped() {
        let interner = Interner::new();
        let text = || value!({"type": "string", "pattern": "^a", "enum": ["a", {"b": 1i64}], "default": "a"});
        let schema = |extra: Value| {
            let mut schema = value!({"type": "object"});
            schema.make_object().insert("properties", value!({"x": {"type": "integer"}}));
            schema.make_at(&["properties"]).insert("a", text());
            schema.make_at(&["properties"]).insert("b", text());
            schema.make_at(&["properties"]).insert("c", extra);
            Structural::parse(&schema, &interner).unwrap()
        };
        let one = schema(value!({"type": "boolean"}));
        let same = schema(value!({"type": "boolean"}));
        let other = schema(value!({"type": "boolean", "nullable": true}));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(one.property("a").unwrap(), other.property("b").unwrap()));
        assert_eq!(interner.len(), 6);
        drop((one, same));
        assert_eq!(interner.len(), 4);
        drop(other);
        assert!(interner.is_empty());
    }
}
