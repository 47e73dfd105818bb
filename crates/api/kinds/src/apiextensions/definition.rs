//! The spec of a definition in kube-apiserver's internal form: members that are equal in all versions belong to the
//! spec.

use binnacle_meta::ErrorValue;
use binnacle_schema::{Value, json};

use crate::checks::{member, present};
use crate::internal;
use crate::prepare::semantically_equal;

/// Members of versions that move to the spec if all versions have equal ones.
const SHARED: [&str; 4] = ["subresources", "schema", "additionalPrinterColumns", "selectableFields"];

pub(super) struct Definition<'a> {
    pub(super) spec: &'a Value,
    pub(super) versions: &'a [Value],
    /// True for each member of [`SHARED`] that is equal in all versions.
    alike: [bool; 4],
}

impl<'a> Definition<'a> {
    pub(super) fn of(definition: &'a Value) -> Self {
        let spec = member(definition, "spec");
        let versions = spec.list_at(&["versions"]);
        let alike = SHARED.map(|name| {
            let first = versions.first().and_then(|first| first.get(name));
            !versions.is_empty() && versions.iter().all(|version| alike(version.get(name), first))
        });
        Self { spec, versions, alike }
    }

    fn is_shared(&self, name: &str) -> bool {
        SHARED.iter().zip(self.alike).any(|(shared, alike)| *shared == name && alike)
    }

    /// Returns a member that all versions share.
    pub(super) fn shared(&self, name: &str) -> Option<&'a Value> {
        self.versions.first().filter(|_| self.is_shared(name)).and_then(|first| present(first, name))
    }

    /// Returns a member of a version that is not shared by all.
    pub(super) fn own(&self, version: &'a Value, name: &str) -> Option<&'a Value> {
        if self.is_shared(name) { None } else { present(version, name) }
    }

    /// Returns all schemas, each once.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a Value> {
        let own = self.versions.iter().filter_map(|version| self.own(version, "schema"));
        self.shared("schema").into_iter().chain(own).filter_map(|schema| present(schema, "openAPIV3Schema"))
    }

    /// Returns the versions as messages show them.
    pub(super) fn shown_versions(&self) -> ErrorValue {
        const VERSION: &str =
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion";
        if present(self.spec, "versions").is_none() {
            return ErrorValue::raw("null");
        }
        let show = |version: &Value| {
            let mut version = version.clone();
            let members = version.make_object();
            SHARED.iter().filter(|name| self.is_shared(name)).for_each(|name| drop(members.remove(name)));
            internal::internal(VERSION, Some(&version))
        };
        ErrorValue::raw(json::to_string(&Value::List(self.versions.iter().map(show).collect())))
    }
}

/// Returns true if two members of versions are equal: compared as structs, but as JSON text if they have values in
/// schemas.
fn alike(a: Option<&Value>, b: Option<&Value>) -> bool {
    const STATED: [&str; 3] = ["default", "enum", "example"];
    let stated =
        |schema: &Value| schema.as_object().is_some_and(|schema| STATED.iter().any(|name| schema.contains(name)));
    if ![a, b].into_iter().flatten().any(|value| super::schema::any_object(value, &stated)) {
        return semantically_equal(a, b);
    }
    a == b
}
