//! The paths of resources: one operation per verb of a description and of its subresources.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_meta::{GroupVersionKind, Text};
use binnacle_scheme::{Deletion, Kinds, ResourceDescription, SubresourceDescription, SubresourceRole, Verb, Verbs};

use crate::names::{article, id_and_tag, title};
use crate::operation::{Body, Content, Method, Operation, Parameter, Path, Response};
use crate::parameters;

/// The media types of objects, in requests and responses.
pub(crate) const OBJECTS: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const OBJECTS_AND_STREAMS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOGS: &[&str] = &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const ANYTHING: &[&str] = &["*/*"];
/// The lists above, and their replacements if CBOR is offered.
const WITH_CBOR: [(&[&str], &[&str]); 4] = [
    (OBJECTS, &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"]),
    (
        OBJECTS_AND_STREAMS,
        &[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/cbor",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
            "application/cbor-seq",
        ],
    ),
    (
        LOGS,
        &[
            "text/plain",
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/cbor",
        ],
    ),
    (
        PATCHES,
        &[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
            "application/apply-patch+cbor",
        ],
    ),
];

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns the paths of the resources of one group version, in order.
pub(crate) fn paths(
    kinds: &dyn Kinds,
    group: &str,
    version: &str,
    resources: &[Arc<ResourceDescription>],
) -> Vec<Path> {
    let root = root(group, version);
    let mut routes = Routes { kinds, root: &root, by_path: BTreeMap::new() };
    for resource in resources {
        routes.resource(resource);
        for subresource in &resource.subresources {
            routes.subresource(resource, subresource);
        }
    }
    routes.by_path.into_iter().map(|(path, operations)| Path::new(path, operations)).collect()
}

/// Adds CBOR to the media types of the paths of a built-in group version.
pub(crate) fn add_cbor(paths: &mut [Path]) {
    for operation in paths.iter_mut().flat_map(|path| &mut path.operations) {
        for types in [&mut operation.consumes, &mut operation.produces] {
            if let Some((_, more)) = WITH_CBOR.iter().find(|(standard, _)| *standard == *types) {
                *types = more;
            }
        }
    }
}

/// Returns the root of a group version: `/api/v1`, `/apis/apps/v1`.
pub(crate) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

struct Routes<'a> {
    kinds: &'a dyn Kinds,
    root: &'a str,
    by_path: BTreeMap<String, Vec<Operation>>,
}

/// A resource or subresource at one of its paths.
struct RoutePath<'a> {
    /// The path below the root.
    path: String,
    parameters: Vec<Parameter>,
    /// The kind in its bodies and responses.
    kind: GroupVersionKind,
    /// The definition of that kind.
    definition: Text,
    /// The kind in the names of operations: that of the resource.
    noun: &'a str,
    subresource: &'a str,
    namespaced: bool,
    /// The suffix of ids: `ForAllNamespaces`, `WithPath`.
    suffix: &'static str,
}

impl Routes<'_> {
    fn resource(&mut self, resource: &ResourceDescription) {
        let collection = match resource.namespaced {
            true => format!("namespaces/{{namespace}}/{}", resource.plural),
            false => resource.plural.to_string(),
        };
        let item = format!("{collection}/{{name}}");
        let scope: Vec<Parameter> = resource.namespaced.then(parameters::namespace).into_iter().collect();
        let mut named = scope.clone();
        named.push(parameters::name(&resource.kind));

        let (kind, kinds) = (resource.group_version_kind(), self.kinds);
        let route = |path: &str, parameters: &[Parameter]| RoutePath {
            path: path.to_owned(),
            parameters: parameters.to_vec(),
            definition: definition(kinds, &kind),
            kind: kind.clone(),
            noun: &resource.kind,
            subresource: "",
            namespaced: resource.namespaced,
            suffix: "",
        };
        let verbs = resource.verbs;
        let list = Content::Definition(definition(
            kinds,
            &GroupVersionKind { kind: resource.list_kind.clone(), ..kind.clone() },
        ));
        let is_watchable = verbs.contains(Verb::Watch);

        self.collection(&route(&collection, &scope), verbs, &list);
        // Deleting a namespace returns it as well, but kube-apiserver's two-phase wrapper does not declare that.
        let returns_deleted = resource.returns_deleted_object && resource.deletion != Deletion::Namespace;
        self.item(&route(&item, &named), verbs, returns_deleted);
        if is_watchable {
            self.watch(&route(&format!("watch/{item}"), &named), "watch");
        }
        if resource.namespaced {
            let reading = [Verb::List, Verb::Watch].into_iter().filter(|verb| verbs.contains(*verb));
            let read_verbs = Verbs::of(&reading.collect::<Vec<_>>());
            let all = |path: &str| RoutePath { namespaced: false, suffix: "ForAllNamespaces", ..route(path, &[]) };
            self.collection(&all(&resource.plural), read_verbs, &list);
        }
    }

    fn subresource(&mut self, resource: &ResourceDescription, subresource: &SubresourceDescription) {
        let scope = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let kind = subresource.group_version_kind(resource);
        let mut route = RoutePath {
            path: format!("{scope}{}/{{name}}/{}", resource.plural, subresource.name),
            parameters: resource.namespaced.then(parameters::namespace).into_iter().collect(),
            definition: definition(self.kinds, &kind),
            noun: &resource.kind,
            subresource: &subresource.name,
            namespaced: resource.namespaced,
            suffix: "",
            kind,
        };
        route.parameters.push(parameters::name(&route.kind.kind));
        match subresource.role {
            SubresourceRole::Connect => {
                self.connect(&route, subresource.verbs);
                if accepts_any_method(subresource.verbs) {
                    route.path.push_str("/{path}");
                    route.parameters.push(parameters::path());
                    route.suffix = "WithPath";
                    self.connect(&route, subresource.verbs);
                }
            }
            SubresourceRole::Log => {
                let text = Response::ok(Content::String);
                let mut operation = route.operation(
                    self.root,
                    "read",
                    "",
                    format!("read {} of the specified {}", route.subresource, route.noun),
                );
                operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "PodLogOptions", &[]));
                operation.parameters.push(parameters::pretty());
                operation.target = Some(("get", route.kind.clone()));
                self.add(&route, Operation { produces: LOGS, responses: vec![text], ..operation });
            }
            SubresourceRole::Create => self.collection(&route, subresource.verbs, &route.content()),
            SubresourceRole::Status | SubresourceRole::Scale | SubresourceRole::Update => {
                self.item(&route, subresource.verbs, false);
            }
        }
    }

    /// Adds the operations on many objects, or to create one.
    fn collection(&mut self, route: &RoutePath<'_>, verbs: Verbs, list: &Content) {
        let noun = route.noun;
        let is_watchable = verbs.contains(Verb::Watch);
        if verbs.contains(Verb::List) {
            let action = if is_watchable { "list or watch" } else { "list" };
            let mut operation = route.operation(self.root, "list", "", format!("{action} objects of kind {noun}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "ListOptions", &[]));
            operation.target = Some(("list", route.kind.clone()));
            let responses = vec![Response::ok(list.clone())];
            self.add(route, Operation { produces: OBJECTS_AND_STREAMS, responses, ..operation });
        }
        if verbs.contains(Verb::Create) {
            let article = article(noun);
            let description = match route.subresource {
                "" => format!("create{article}{noun}"),
                subresource => format!("create {subresource} of{article}{noun}"),
            };
            let mut operation = route.operation(self.root, "create", "", description);
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "CreateOptions", &[]));
            operation.body = Some(route.body());
            operation.target = Some(("post", route.kind.clone()));
            let content = route.content();
            operation.responses =
                vec![Response::ok(content.clone()), Response::created(content.clone()), Response::accepted(content)];
            self.add(route, operation);
        }
        if verbs.contains(Verb::DeleteCollection) {
            let mut operation =
                route.operation(self.root, "delete", "collection", format!("delete collection of {noun}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "DeleteOptions", &[]));
            let listed = parameters::of_options(self.kinds, "", "v1", "ListOptions", &["watch", "allowWatchBookmarks"]);
            operation.parameters.extend(listed);
            operation.body = Some(delete_options());
            operation.target = Some(("deletecollection", route.kind.clone()));
            operation.responses = vec![Response::ok(meta("Status"))];
            self.add(route, operation);
        }
        if is_watchable && verbs.contains(Verb::List) {
            let watch = RoutePath {
                path: format!("watch/{}", route.path),
                parameters: route.parameters.clone(),
                kind: route.kind.clone(),
                definition: route.definition.clone(),
                ..*route
            };
            self.watch(&watch, "watchlist");
        }
    }

    /// Adds the operations on one object or subresource.
    fn item(&mut self, route: &RoutePath<'_>, verbs: Verbs, returns_deleted: bool) {
        let (noun, content) = (route.noun, route.content());
        let object = match route.subresource {
            "" => format!("the specified {noun}"),
            subresource => format!("{subresource} of the specified {noun}"),
        };
        let responses = || vec![Response::ok(content.clone()), Response::created(content.clone())];
        if verbs.contains(Verb::Get) {
            let mut operation = route.operation(self.root, "read", "", format!("read {object}"));
            operation.parameters.push(parameters::pretty());
            operation.target = Some(("get", route.kind.clone()));
            let responses = vec![Response::ok(content.clone())];
            self.add(route, Operation { responses, ..operation });
        }
        if verbs.contains(Verb::Update) {
            let mut operation = route.operation(self.root, "replace", "", format!("replace {object}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "UpdateOptions", &[]));
            operation.body = Some(route.body());
            operation.target = Some(("put", route.kind.clone()));
            self.add(route, Operation { responses: responses(), ..operation });
        }
        if verbs.contains(Verb::Patch) {
            let mut operation = route.operation(self.root, "patch", "", format!("partially update {object}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "PatchOptions", &[]));
            operation.body = Some(Body { definition: format!("{META}.Patch").into(), required: true });
            operation.target = Some(("patch", route.kind.clone()));
            self.add(route, Operation { consumes: PATCHES, responses: responses(), ..operation });
        }
        if verbs.contains(Verb::Delete) {
            let description = format!("delete{}{noun}", article(noun));
            let mut operation = route.operation(self.root, "delete", "", description);
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "DeleteOptions", &[]));
            operation.body = Some(delete_options());
            operation.target = Some(("delete", route.kind.clone()));
            let returned = if returns_deleted { content.clone() } else { meta("Status") };
            operation.responses = vec![Response::ok(returned.clone()), Response::accepted(returned)];
            self.add(route, operation);
        }
    }

    /// Adds the deprecated watch paths: `watch` for one object, `watchlist` for many.
    fn watch(&mut self, route: &RoutePath<'_>, action: &'static str) {
        let noun = route.noun;
        let (list, description) = if action == "watchlist" {
            let instead = "deprecated: use the 'watch' parameter with a list operation instead.";
            ("List", format!("watch individual changes to a list of {noun}. {instead}"))
        } else {
            let instead = "deprecated: use the 'watch' parameter with a list operation instead, filtered to a single \
                           item with the 'fieldSelector' parameter.";
            ("", format!("watch changes to an object of kind {noun}. {instead}"))
        };
        let mut operation = route.operation_of(self.root, "watch", "", list, description);
        operation.parameters.push(parameters::pretty());
        operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "ListOptions", &[]));
        operation.target = Some((action, route.kind.clone()));
        let responses = vec![Response::ok(meta("WatchEvent"))];
        self.add(route, Operation { produces: OBJECTS_AND_STREAMS, responses, ..operation });
    }

    fn connect(&mut self, route: &RoutePath<'_>, verbs: Verbs) {
        let GroupVersionKind { group, version, kind } = &route.kind;
        let options = parameters::of_options(self.kinds, group, version, kind, &[]);
        for method in connect_methods(verbs) {
            let verb = format!("connect{}", title(method.as_str()));
            let method_name = method.as_str().to_uppercase();
            let description = format!("connect {method_name} requests to {} of {}", route.subresource, route.noun);
            let rest = verb.strip_prefix("connect").unwrap_or_default();
            let mut operation = route.operation(self.root, "connect", rest, description);
            operation.parameters.extend(options.iter().cloned());
            operation.target = Some(("connect", route.kind.clone()));
            let responses = vec![Response::ok(Content::String)];
            self.add(route, Operation { method: *method, produces: ANYTHING, responses, ..operation });
        }
    }

    fn add(&mut self, route: &RoutePath<'_>, operation: Operation) {
        self.by_path.entry(format!("{}/{}", self.root, route.path)).or_default().push(operation);
    }
}

impl RoutePath<'_> {
    /// Returns an incomplete operation. `before` is the part of its id between group version and kind.
    fn operation(&self, root: &str, verb: &'static str, before: &str, description: String) -> Operation {
        self.operation_of(root, verb, before, "", description)
    }

    fn operation_of(&self, root: &str, verb: &str, before: &str, after: &str, description: String) -> Operation {
        let namespaced = if self.namespaced { "Namespaced" } else { "" };
        let rest = format!("{before}{namespaced}{}{}{after}{}", self.noun, title(self.subresource), self.suffix);
        let (id, tag) = id_and_tag(verb, &rest, root);
        Operation {
            method: match verb {
                "create" => Method::Post,
                "replace" => Method::Put,
                "patch" => Method::Patch,
                "delete" => Method::Delete,
                _ => Method::Get,
            },
            description,
            id,
            tag,
            parameters: self.parameters.clone(),
            body: None,
            consumes: ANYTHING,
            produces: OBJECTS,
            responses: Vec::new(),
            target: None,
        }
    }

    fn content(&self) -> Content {
        Content::Definition(self.definition.clone())
    }

    fn body(&self) -> Body {
        Body { definition: self.definition.clone(), required: true }
    }
}

/// Returns true if the path forwards all methods; only such paths support DELETE.
fn accepts_any_method(verbs: Verbs) -> bool {
    verbs.contains(Verb::Delete)
}

fn connect_methods(verbs: Verbs) -> &'static [Method] {
    use Method::{Delete, Get, Head, Options, Patch, Post, Put};
    if accepts_any_method(verbs) { &[Get, Post, Put, Patch, Delete, Head, Options] } else { &[Get, Post] }
}

/// Returns the name of a kind's definition. A test ensures that the field tables contain the kinds of all resources.
fn definition(kinds: &dyn Kinds, kind: &GroupVersionKind) -> Text {
    kinds.kind(&kind.group, &kind.version, &kind.kind).map(|message| message.name.clone()).unwrap_or_default()
}

fn meta(kind: &str) -> Content {
    Content::Definition(format!("{META}.{kind}").into())
}

fn delete_options() -> Body {
    Body { definition: format!("{META}.DeleteOptions").into(), required: false }
}
