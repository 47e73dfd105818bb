//! The schemas of all definitions. Equal ones are shared, and kept as compressed text until their resources are used.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, Weak};

use binnacle_schema::{Limits, Message, MessageRef, MessageSource, Value, json};
use binnacle_structural::resource::ResourceSchema;
use binnacle_structural::{Interner, Structural, Unsupported, check, defaults};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use parking_lot::Mutex;

use crate::definition::SchemaSource;

/// A cache of the versions' schemas. Equal schemas of versions and definitions share everything, others share equal
/// parts.
#[derive(Debug, Default)]
pub struct Schemas {
    interner: Arc<Interner>,
    table: Mutex<Table>,
}

/// A table of weak references. Dead ones are removed when the table has doubled.
#[derive(Debug)]
struct Table {
    by_hash: HashMap<[u8; 32], Weak<SharedSchema>>,
    sweep_at: usize,
}

/// The minimum size of the table for removing dead entries.
const SMALLEST_SWEEP: usize = 64;

/// `openAPIV3Schema` of one or more versions.
pub(crate) struct SharedSchema {
    text: Option<Arc<PackedText>>,
    resource: ResourceSchema,
}

/// The text of a schema, compressed.
struct PackedText {
    bytes: Box<[u8]>,
    length: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { by_hash: HashMap::new(), sweep_at: SMALLEST_SWEEP }
    }
}

impl Table {
    fn sweep(&mut self) {
        self.by_hash.retain(|_, schema| schema.strong_count() > 0);
        self.by_hash.shrink_to_fit();
        self.sweep_at = (self.by_hash.len() * 2).max(SMALLEST_SWEEP);
    }
}

impl Schemas {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the schema of a version; without a source, the schema of a version that has none.
    ///
    /// # Errors
    /// If the schema has keywords that no structural schema has.
    pub(crate) fn of(&self, schema: Option<&SchemaSource>) -> Result<Arc<SharedSchema>, Unsupported> {
        schema.map_or(Ok(()), |schema| check(schema.tree()))?;
        // No text has this hash.
        let hash = schema.map_or([0; 32], SchemaSource::hash);
        let mut table = self.table.lock();
        if let Some(known) = table.by_hash.get(&hash).and_then(Weak::upgrade) {
            return Ok(known);
        }
        if table.by_hash.len() >= table.sweep_at {
            table.sweep();
        }
        let made = Arc::new(self.make(schema.map(SchemaSource::text)));
        table.by_hash.insert(hash, Arc::downgrade(&made));
        Ok(made)
    }

    fn make(&self, text: Option<&str>) -> SharedSchema {
        let text = text.map(|text| Arc::new(PackedText::new(text)));
        let (source, interner) = (text.clone(), self.interner.clone());
        let object_meta = MessageRef::Static(binnacle_apimachinery::object_meta());
        let metadata = object_meta.clone();
        let load = move || {
            let tree = source.as_ref()?.tree()?;
            // It was checked before it was compressed.
            let schema = Structural::parse(&tree, &interner).ok()?;
            Some(defaults::pruned(&schema, &metadata, &interner))
        };
        SharedSchema { text, resource: ResourceSchema::lazy(load, object_meta) }
    }

    /// Returns the number of schemas in use.
    pub fn len(&self) -> usize {
        let mut table = self.table.lock();
        table.sweep();
        table.by_hash.len()
    }

    /// Returns true if no schema and no part of one is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.interner.is_empty()
    }
}

impl SharedSchema {
    /// Returns the schema for stored objects.
    pub(crate) fn resource(&self) -> &ResourceSchema {
        &self.resource
    }

    /// Returns the schema as it is in the definition.
    pub(crate) fn tree(&self) -> Option<Value> {
        self.text.as_ref()?.tree()
    }
}

impl MessageSource for SharedSchema {
    fn message(&self) -> &Message {
        self.resource.message()
    }
}

impl fmt::Debug for SharedSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSchema").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl PackedText {
    fn new(text: &str) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(text.len() / 4), LEVEL);
        // Writing to memory does not fail.
        let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default();
        Self { bytes: packed.into(), length: text.len() }
    }

    /// Decompresses and parses the text; `None` if it is not JSON, which never happens.
    fn tree(&self) -> Option<Value> {
        let mut text = Vec::with_capacity(self.length);
        DeflateDecoder::new(&*self.bytes).read_to_end(&mut text).ok()?;
        json::parse(&text, &LIMITS).ok()
    }
}

/// No size limit: the tree was within the limits of a request, but its text may be longer than the client's.
const LIMITS: Limits = Limits { max_bytes: usize::MAX, max_depth: 512, max_yaml_nodes: 0, max_memory: usize::MAX };

/// The level is twice as fast as the default, and its result a tenth larger.
const LEVEL: Compression = Compression::new(3);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn equal_schemas_are_one_until_nobody_uses_them() {
        let schemas = Schemas::new();
        let schema = |name: &str| {
            let mut schema = value!({"type": "object", "properties": {"spec": {"type": "object"}}});
            schema.make_at(&["properties"]).insert(name, value!({"type": "integer", "default": 1i64}));
            schema
        };
        let source = |name: &str| SchemaSource::new(schema(name));
        let (a, same, b) = (source("a"), source("a"), source("b"));
        let first = schemas.of(Some(&a)).unwrap();
        assert!(Arc::ptr_eq(&first, &schemas.of(Some(&same)).unwrap()));
        let other = schemas.of(Some(&b)).unwrap();
        let none = schemas.of(None).unwrap();
        assert_eq!(schemas.len(), 3);
        assert_eq!(first.tree(), Some(schema("a")));
        assert_eq!(none.tree(), None);
        assert!(none.resource().schema().is_none());
        // No schema is parsed before its first use.
        assert!(schemas.interner.is_empty());
        assert!(first.resource().message().get("a").is_some());
        assert!(other.resource().schema().unwrap().property("b").is_some());
        assert!(!schemas.interner.is_empty());
        drop((first, other, none));
        assert!(schemas.is_empty());
        assert!(schemas.of(Some(&SchemaSource::new(value!({"properties": {"a": {"$ref": "x"}}})))).is_err());
    }
}
