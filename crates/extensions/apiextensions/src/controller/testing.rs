//! Definitions for tests, and a catalog with their resources.

use std::sync::Arc;

use crate::{Definition, SchemaOrigin, SchemaReader, Schemas};
use binnacle_meta::FieldErrors;
use binnacle_registry::admission::AdmitAll;
use binnacle_registry::{Catalog, Installer, StorageOptions};
use binnacle_schema::{Object, Value, value};
use binnacle_store::Revision;
use binnacle_store_embedded::EmbeddedStore;

use super::conversion::ConversionMetrics;
use super::serving::{CustomResources, DefinitionRules};
use binnacle_services::{ServiceAddresses, ServiceRouting};

/// The rules of definitions: all schemas are structural.
const RULES: DefinitionRules =
    DefinitionRules { structure: |_, _| FieldErrors::new(), invalid_bundle: |bundle| bundle == "none" };

/// Returns a catalog and custom resources over an empty store.
pub(super) fn custom_resources() -> (Catalog, CustomResources) {
    custom_resources_with(schemas())
}

pub(super) fn schemas() -> Schemas {
    Schemas::new(RULES.structure)
}

/// Returns a catalog and custom resources like [`custom_resources`], with the schemas of other clusters.
pub(super) fn custom_resources_with(schemas: Schemas) -> (Catalog, CustomResources) {
    let catalog = Catalog::new(binnacle_builtin::kinds(), Arc::default());
    let storage = StorageOptions::new(Arc::new(EmbeddedStore::ephemeral()));
    let installer = Arc::new(Installer::new(storage, Arc::new(AdmitAll), Default::default(), 1 << 20));
    let resolver = Arc::new(ServiceAddresses::new(catalog.clone(), ServiceRouting::ClusterIp, None));
    let metrics = ConversionMetrics::register(&binnacle_metrics::Registry::new()).expect("a registry of its own");
    let kinds = binnacle_builtin::kinds();
    let custom = CustomResources::new(catalog.clone(), installer, kinds, resolver, metrics, RULES, schemas);
    (catalog, custom)
}

/// Returns the n-th definition of the group `a.test`, whose objects have `fields` fields; all definitions differ.
pub(super) fn definition(n: usize, fields: usize) -> Definition {
    Definition::read(&object(n, fields))
}

/// Returns the definition as it is stored with this revision.
pub(super) fn stored_definition(n: usize, fields: usize, revision: u64) -> Definition {
    let object = object(n, fields);
    let stored = StoredTrees { trees: Definition::read(&object).origin, revision: Revision(revision) };
    Definition::part(&object, Arc::new(SchemaOrigin::new(Arc::new(stored))))
}

struct StoredTrees {
    trees: Arc<SchemaOrigin>,
    revision: Revision,
}

impl SchemaReader for StoredTrees {
    fn schema(&self, version: usize) -> Option<Value> {
        self.trees.schema(version)
    }

    fn revision(&self) -> Option<Revision> {
        Some(self.revision)
    }
}

fn object(n: usize, fields: usize) -> Value {
    let plural = format!("widgets{n}");
    let names = value!({
        "plural": (plural.clone()), "singular": (format!("widget{n}")), "kind": (format!("Widget{n}")),
        "listKind": (format!("Widget{n}List"))
    });
    let mut properties = Object::new();
    for field in 0..fields {
        properties.insert(format!("n{field}"), value!({"type": "integer", "maximum": ((n * 1000 + field) as i64)}));
    }
    let schema = value!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    let mut object = value!({
        "metadata": {"name": (format!("{plural}.a.test")), "uid": (plural)},
        "spec": {"group": "a.test", "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}
        ]}
    });
    object.make_at(&["spec"]).insert("names", names.clone());
    object.make_at(&["status"]).insert("acceptedNames", names);
    object
}
