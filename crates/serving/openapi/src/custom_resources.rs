//! The paths and definitions of custom resources. As in apiextensions-apiserver, they differ from built-in ones: no
//! protobuf, no strategic merge patches, no watch paths, and options with their actual fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_meta::{GroupVersionKind, Text};
use binnacle_schema::json::to_string;
use binnacle_scheme::{Kinds, OpenApiDefinitions, OpenApiVersion, ResourceDescription, SubresourceRole};

use crate::definitions::{BuiltIn, Definitions, Dialect};
use crate::json::Json;
use crate::names::{article, id_and_tag, title};
use crate::operation::{Body, Content, Method, Operation, Parameter, Path, Response};
use crate::{parameters, routes};

const OBJECTS: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

// === Definitions ===

/// The definitions of custom resources and of the field tables, which have precedence.
pub(crate) struct CustomDefinitions<'a> {
    built_in: BuiltIn<'a>,
    kinds: &'a dyn Kinds,
    /// By name.
    custom: BTreeMap<Text, CustomDefinition<'a>>,
}

/// The definition of the objects of a resource, or of their lists.
struct CustomDefinition<'a> {
    published: &'a Arc<dyn OpenApiDefinitions>,
    /// The name of the definition of the elements, for lists.
    element: Option<Text>,
}

impl<'a> CustomDefinitions<'a> {
    pub(crate) fn new(
        built_in: BuiltIn<'a>,
        kinds: &'a dyn Kinds,
        resources: impl IntoIterator<Item = &'a Arc<ResourceDescription>>,
    ) -> Self {
        let mut custom = BTreeMap::new();
        for resource in resources {
            let Some(published) = &resource.published else { continue };
            let (object, list) = (definition(resource, &resource.kind), definition(resource, &resource.list_kind));
            custom.insert(list, CustomDefinition { published, element: Some(object.clone()) });
            custom.insert(object, CustomDefinition { published, element: None });
        }
        Self { built_in, kinds, custom }
    }

    fn find(&self, name: &str) -> Option<&CustomDefinition<'a>> {
        self.custom.get(name).filter(|_| self.kinds.message(name).is_none())
    }
}

/// The definitions that custom resources refer to.
pub(crate) const REFERENCED: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];

/// Returns the definitions of a custom resource as JSON, with their names.
pub(crate) fn definitions_of(
    kinds: &dyn Kinds,
    resource: &ResourceDescription,
    version: OpenApiVersion,
) -> Vec<(Text, String)> {
    let Some(published) = &resource.published else { return Vec::new() };
    let object = (definition(resource, &resource.kind), published.object(version));
    let list = (definition(resource, &resource.list_kind), published.list(version));
    let own = [list, object].into_iter().filter(|(name, _)| kinds.message(name).is_none());
    own.map(|(name, definition)| (name, to_string(&definition))).collect()
}

impl Definitions for CustomDefinitions<'_> {
    fn references(&self, name: &str, found: &mut dyn FnMut(Text)) {
        let Some(custom) = self.find(name) else { return self.built_in.references(name, found) };
        match &custom.element {
            Some(element) => {
                found(element.clone());
                found(format!("{META}.ListMeta").into());
            }
            None => found(format!("{META}.ObjectMeta").into()),
        }
    }

    fn write(&self, name: &str, dialect: Dialect, json: &mut Json) {
        let Some(custom) = self.find(name) else { return self.built_in.write(name, dialect, json) };
        let version = match dialect {
            Dialect::V2 => OpenApiVersion::V2,
            Dialect::V3 => OpenApiVersion::V3,
        };
        let definition = match custom.element {
            Some(_) => custom.published.list(version),
            None => custom.published.object(version),
        };
        json.raw(to_string(&definition));
    }
}

/// Returns the name of the definition of a kind of the resource: its group reversed, version and kind.
fn definition(resource: &ResourceDescription, kind: &str) -> Text {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), resource.version).into()
}

// === Paths ===

/// Returns the paths of the custom resources of one group version, in order.
pub(crate) fn paths(kinds: &dyn Kinds, resources: &[Arc<ResourceDescription>]) -> Vec<Path> {
    let mut by_path = BTreeMap::new();
    for resource in resources {
        Routes { kinds, resource, by_path: &mut by_path }.add_all();
    }
    by_path.into_iter().map(|(path, operations)| Path::new(path, operations)).collect()
}

struct Routes<'a> {
    kinds: &'a dyn Kinds,
    resource: &'a ResourceDescription,
    by_path: &'a mut BTreeMap<String, Vec<Operation>>,
}

/// A path, and the common parts of its operations.
struct CustomPath<'a> {
    path: String,
    /// The capitalized subresource; empty for the resource itself.
    title: String,
    subresource: &'a str,
    parameters: Vec<Parameter>,
    /// The definition of request and response bodies.
    definition: Text,
}

impl Routes<'_> {
    fn add_all(&mut self) {
        let resource = self.resource;
        let root = routes::root(&resource.group, &resource.version);
        let route = |path: String, parameters: Vec<Parameter>| CustomPath {
            path,
            title: String::new(),
            subresource: "",
            parameters,
            definition: definition(resource, &resource.kind),
        };
        let all_namespaces = route(format!("{root}/{}", resource.plural), vec![parameters::pretty()]);
        let collection = match resource.namespaced {
            true => route(
                format!("{root}/namespaces/{{namespace}}/{}", resource.plural),
                vec![parameters::pretty(), parameters::namespace()],
            ),
            false => route(all_namespaces.path.clone(), all_namespaces.parameters.clone()),
        };
        let mut named = collection.parameters.clone();
        named.push(parameters::name(&resource.kind));
        let item = route(format!("{}/{{name}}", collection.path), named);

        if resource.namespaced {
            self.list(&all_namespaces, false, "ForAllNamespaces");
        }
        self.collection(&collection);
        self.item(&item);
        self.delete(&item);
        for subresource in &resource.subresources {
            let definition = match subresource.role {
                SubresourceRole::Status => item.definition.clone(),
                _ => {
                    let kind = subresource.group_version_kind(resource);
                    let message = self.kinds.kind(&kind.group, &kind.version, &kind.kind);
                    message.map(|message| message.name.clone()).unwrap_or_default()
                }
            };
            self.item(&CustomPath {
                path: format!("{}/{}", item.path, subresource.name),
                title: title(&subresource.name),
                subresource: &subresource.name,
                parameters: item.parameters.clone(),
                definition,
            });
        }
    }

    fn list(&mut self, route: &CustomPath<'_>, namespaced: bool, suffix: &str) {
        let description = format!("list objects of kind {}", self.resource.kind);
        let mut operation = self.operation(route, "list", "list", ["", suffix], namespaced, description);
        operation.parameters.extend(self.options("ListOptions"));
        let list = definition(self.resource, &self.resource.list_kind);
        operation.responses = vec![Response::ok(Content::Definition(list))];
        self.add(route, operation);
    }

    fn collection(&mut self, route: &CustomPath<'_>) {
        let (kind, namespaced) = (&self.resource.kind, self.resource.namespaced);
        self.list(route, namespaced, "");

        let description = format!("create{}{kind}", article(kind));
        let mut operation = self.operation(route, "create", "post", ["", ""], namespaced, description);
        operation.parameters.extend(self.options("CreateOptions"));
        operation.body = Some(route.body());
        let content = || Content::Definition(route.definition.clone());
        operation.responses =
            vec![Response::ok(content()), Response::created(content()), Response::accepted(content())];
        self.add(route, operation);

        let description = format!("delete collection of {kind}");
        let mut operation =
            self.operation(route, "delete", "deletecollection", ["collection", ""], namespaced, description);
        operation.parameters.extend(self.options("ListOptions"));
        operation.responses = vec![Response::ok(status())];
        self.add(route, operation);
    }

    /// Adds the operations on one object or subresource.
    fn item(&mut self, route: &CustomPath<'_>) {
        let (kind, namespaced) = (&self.resource.kind, self.resource.namespaced);
        let object = match route.subresource {
            "" => format!("the specified {kind}"),
            subresource => format!("{subresource} of the specified {kind}"),
        };
        let content = || Content::Definition(route.definition.clone());

        let mut operation = self.operation(route, "read", "get", ["", ""], namespaced, format!("read {object}"));
        operation.parameters.extend(self.options("GetOptions"));
        operation.responses = vec![Response::ok(content())];
        self.add(route, operation);

        let mut operation = self.operation(route, "replace", "put", ["", ""], namespaced, format!("replace {object}"));
        operation.parameters.extend(self.options("UpdateOptions"));
        operation.body = Some(route.body());
        operation.responses = vec![Response::ok(content()), Response::created(content())];
        self.add(route, operation);

        let description = format!("partially update {object}");
        let mut operation = self.operation(route, "patch", "patch", ["", ""], namespaced, description);
        operation.parameters.extend(self.options("PatchOptions"));
        operation.body = Some(Body { definition: format!("{META}.Patch").into(), required: true });
        operation.consumes = PATCHES;
        operation.responses = vec![Response::ok(content())];
        self.add(route, operation);
    }

    fn delete(&mut self, route: &CustomPath<'_>) {
        let (kind, namespaced) = (&self.resource.kind, self.resource.namespaced);
        let description = format!("delete{}{kind}", article(kind));
        let mut operation = self.operation(route, "delete", "delete", ["", ""], namespaced, description);
        operation.parameters.extend(self.options("DeleteOptions"));
        operation.body = Some(Body { definition: format!("{META}.DeleteOptions").into(), required: false });
        operation.responses = vec![Response::ok(status()), Response::accepted(status())];
        self.add(route, operation);
    }

    /// Returns an incomplete operation; `around` are the parts of its id before and after the kind.
    fn operation(
        &self,
        route: &CustomPath<'_>,
        verb: &'static str,
        action: &'static str,
        around: [&str; 2],
        namespaced: bool,
        description: String,
    ) -> Operation {
        let ResourceDescription { group, version, kind, .. } = self.resource;
        let namespaced = if namespaced { "Namespaced" } else { "" };
        let rest = format!("{}{namespaced}{kind}{}{}", around[0], route.title, around[1]);
        let (id, tag) = id_and_tag(verb, &rest, &route.path);
        Operation {
            method: match action {
                "post" => Method::Post,
                "put" => Method::Put,
                "patch" => Method::Patch,
                "delete" | "deletecollection" => Method::Delete,
                _ => Method::Get,
            },
            description,
            id,
            tag,
            parameters: route.parameters.clone(),
            body: None,
            consumes: OBJECTS,
            produces: OBJECTS,
            responses: Vec::new(),
            // The resource's kind, even for operations that read and write another kind.
            target: Some((action, GroupVersionKind::new(group.clone(), version.clone(), kind.clone()))),
        }
    }

    fn options(&self, kind: &str) -> Vec<Parameter> {
        parameters::of_options(self.kinds, "", "v1", kind, &[])
    }

    fn add(&mut self, route: &CustomPath<'_>, operation: Operation) {
        self.by_path.entry(route.path.clone()).or_default().push(operation);
    }
}

impl CustomPath<'_> {
    fn body(&self) -> Body {
        Body { definition: self.definition.clone(), required: true }
    }
}

fn status() -> Content {
    Content::Definition(format!("{META}.Status").into())
}
