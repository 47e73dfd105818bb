//! The schemas of all definitions. They are read at the first use of their resource; equal schemas are shared.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, Weak};

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Message, MessageRef, MessageSource, Value, json};
use binnacle_store::Revision;
use binnacle_structural::resource::ResourceSchema;
use binnacle_structural::{Interner, SchemaScope, Structural, Weight, defaults};
use binnacle_work::pace;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::definition::{Definition, Version};
use crate::definition_types::DefinitionTypes;
use crate::source::SchemaSource;

/// A cache of the schemas of all versions, and of the types of definitions. Equal schemas of versions and definitions
/// share everything; other schemas share equal parts. Clones share the cache.
#[derive(Clone)]
pub struct Schemas(Arc<Shared>);

/// Returns the reasons why a schema is not structural.
pub type StructuralRules = fn(&Value, &FieldPath) -> FieldErrors;

struct Shared {
    interner: Interner,
    table: Mutex<WeakTable<Fingerprint, ResourceSchema>>,
    types: Mutex<WeakTable<(Fingerprint, Revision), DefinitionTypes>>,
    structure: StructuralRules,
}

/// A hash of everything that matters.
pub(crate) type Fingerprint = [u8; 32];

/// A table of weak references. Dead references are removed when the table has doubled in size.
struct WeakTable<K, V> {
    by_key: HashMap<K, Weak<V>>,
    sweep_at: usize,
}

/// The work steps for parsing a node of a schema.
const PARSE: u64 = 20;
/// The minimum size of the table for removing dead entries.
const SMALLEST_SWEEP: usize = 64;

/// `openAPIV3Schema` of one version.
pub(crate) struct LazySchema {
    source: Option<SchemaSource>,
    /// True for definitions that preserve unknown fields, which only v1beta1 could create. Their schemas need not be
    /// structural.
    preserve_unknown: bool,
    shared: Arc<Shared>,
    resource: OnceLock<Arc<ResourceSchema>>,
}

impl<K, V> Default for WeakTable<K, V> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), sweep_at: SMALLEST_SWEEP }
    }
}

impl<K: Eq + Hash, V> WeakTable<K, V> {
    fn get(&self, key: &K) -> Option<Arc<V>> {
        self.by_key.get(key).and_then(Weak::upgrade)
    }

    /// Adds a value, unless there is one with the same key; returns the one that is in the table.
    fn add(&mut self, key: K, value: Arc<V>) -> Arc<V> {
        if let Some(known) = self.get(&key) {
            return known;
        }
        if self.by_key.len() >= self.sweep_at {
            self.sweep();
        }
        self.by_key.insert(key, Arc::downgrade(&value));
        value
    }

    fn sweep(&mut self) {
        self.by_key.retain(|_, value| value.strong_count() > 0);
        self.by_key.shrink_to_fit();
        self.sweep_at = (self.by_key.len() * 2).max(SMALLEST_SWEEP);
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").field("read", &self.0.table.lock().by_key.len()).finish_non_exhaustive()
    }
}

impl Schemas {
    pub fn new(structure: StructuralRules) -> Self {
        let (table, types) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { interner: Interner::default(), table, types, structure }))
    }

    /// Returns the schema of a version, which is read at its first use. Without a source, returns the schema of a
    /// version that has none. `preserve_unknown` is that of the definition.
    pub(crate) fn of(&self, source: Option<&SchemaSource>, preserve_unknown: bool) -> Arc<LazySchema> {
        let (source, shared) = (source.cloned(), self.0.clone());
        Arc::new(LazySchema { source, preserve_unknown, shared, resource: OnceLock::new() })
    }

    /// Returns the types of a definition; builds them unless another cluster with the same definition has them.
    ///
    /// A fork begins with the definitions of its source. A stored definition never has the same revision with other
    /// contents; `fingerprint` covers what the controller adds to it.
    pub(crate) fn types_of(
        &self,
        definition: &Definition,
        fingerprint: Fingerprint,
        build: impl FnOnce() -> DefinitionTypes,
    ) -> Arc<DefinitionTypes> {
        let is_refused = |version: &Version| version.schema.as_ref().is_some_and(|schema| schema.unsupported.is_some());
        let revision = definition.origin.revision().filter(|_| !definition.versions.iter().any(is_refused));
        let Some(key) = revision.map(|revision| (fingerprint, revision)) else { return Arc::new(build()) };
        if let Some(known) = self.0.types.lock().get(&key) {
            return known;
        }
        let built = Arc::new(build());
        self.0.types.lock().add(key, built)
    }

    /// Returns the number of schemas that were read and are in use.
    pub fn len(&self) -> usize {
        let mut table = self.0.table.lock();
        table.sweep();
        table.by_key.len()
    }

    /// Returns true if no schema and no part of one is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.0.interner.is_empty()
    }
}

impl Shared {
    /// Returns the schema for objects; reuses the schema of an equal tree that is in use.
    fn of(&self, tree: Option<&Value>, preserve_unknown: bool) -> Arc<ResourceSchema> {
        // No text has this hash.
        let hash = tree.map_or([0; 32], |tree| {
            let hash = Sha256::new().chain_update(json::to_string(tree));
            if preserve_unknown { hash.chain_update("preserving").finalize() } else { hash.finalize() }.into()
        });
        if let Some(known) = self.table.lock().get(&hash) {
            return known;
        }
        let built = Arc::new(self.build(tree, preserve_unknown));
        self.table.lock().add(hash, built)
    }

    fn build(&self, tree: Option<&Value>, preserve_unknown: bool) -> ResourceSchema {
        let object_meta = MessageRef::Static(binnacle_apimachinery::object_meta());
        let schema = tree.and_then(|tree| match Structural::parse(tree, &self.interner) {
            Ok(schema) => Some(defaults::pruned(&schema, &object_meta, &self.interner)),
            Err(error) => {
                tracing::error!(%error, "a schema that no server has judged cannot be used");
                None
            }
        });
        let is_structural = || tree.is_some_and(|tree| (self.structure)(tree, &FieldPath::root()).is_empty());
        let typing = match preserve_unknown {
            false => SchemaScope::Schema,
            true if is_structural() => SchemaScope::Preserving,
            true => SchemaScope::Nothing,
        };
        ResourceSchema::new(schema, object_meta).with_scope(typing)
    }
}

impl LazySchema {
    /// Returns the schema for stored objects.
    pub(crate) fn resource(&self) -> &ResourceSchema {
        if let Some(known) = self.resource.get() {
            return known;
        }
        // Built outside of the cell: otherwise others would block their threads while this one waits for its turn.
        let tree = self.tree();
        tree.iter().for_each(|tree| pace(Weight::of(tree).nodes * PARSE));
        let built = self.shared.of(tree.as_ref(), self.preserve_unknown);
        self.resource.get_or_init(|| built)
    }

    /// Returns the schema as it is in the definition.
    pub(crate) fn tree(&self) -> Option<Value> {
        self.source.as_ref()?.tree()
    }
}

impl MessageSource for LazySchema {
    fn message(&self) -> &Message {
        self.resource().message()
    }
}

impl fmt::Debug for LazySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazySchema").field("resource", &self.resource.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::Definition;

    #[test]
    fn shares_equal_schemas_while_in_use() {
        let schemas = Schemas::new(|_, _| FieldErrors::new());
        let schema = |name: &str| {
            let mut schema = value!({"type": "object", "properties": {"spec": {"type": "object"}}});
            schema.make_at(&["properties"]).insert(name, value!({"type": "integer", "default": 1i64}));
            schema
        };
        let versions = ["a", "a", "b"].map(|name| {
            let version = value!({"name": "v1", "schema": {"openAPIV3Schema": (schema(name))}});
            let mut object = value!({"spec": {"group": "a.test"}});
            object.make_at(&["spec"]).insert("versions", vec![version]);
            Definition::read(&object).versions.remove(0)
        });
        let [first, same, other] = versions.each_ref().map(|version| schemas.of(version.schema.as_ref(), false));
        let none = schemas.of(None, false);
        assert_eq!(first.tree(), Some(schema("a")));
        assert_eq!(none.tree(), None);
        // No schema is built before its first use.
        assert!(schemas.is_empty());
        assert!(none.resource().schema().is_none());
        assert!(first.resource().message().get("a").is_some());
        assert!(other.resource().schema().is_some_and(|schema| schema.property("b").is_some()));
        assert!(std::ptr::eq(first.resource(), same.resource()));
        assert_eq!(schemas.len(), 3);
        drop((first, same, other, none));
        assert!(schemas.is_empty());
    }
}
