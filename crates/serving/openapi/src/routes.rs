//! The paths of resources: the operations of a description's verbs and subresources.

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
/// The lists above, and what they are where CBOR is offered.
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

/// Names CBOR among the media types of the paths of a group version. Those of custom resources never do.
pub(crate) fn add_cbor(paths: &mut [Path]) {
    for operation in paths.iter_mut().flat_map(|path| &mut path.operations) {
        for types in [&mut operation.consumes, &mut operation.produces] {
            if let Some((_, more)) = WITH_CBOR.iter().find(|(standard, _)| *standard == *types) {
                *types = more;
            }
        }
    }
}

/// `/api/v1`, `/apis/apps/v1`.
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
    /// The end of the ids: `ForAllNamespaces`, `WithPath`.
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
        let place = |path: &str, parameters: &[Parameter]| RoutePath {
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
        let watched = verbs.contains(Verb::Watch);

        self.collection(&place(&collection, &scope), verbs, &list);
        // The deletion of a namespace returns it as well, but kube-apiserver's two-phase wrapper does not declare that.
        let returns_deleted = resource.returns_deleted_object && resource.deletion != Deletion::Namespace;
        self.item(&place(&item, &named), verbs, returns_deleted);
        if watched {
            self.watch(&place(&format!("watch/{item}"), &named), "watch");
        }
        if resource.namespaced {
            let reading = [Verb::List, Verb::Watch].into_iter().filter(|verb| verbs.contains(*verb));
            let everywhere = Verbs::of(&reading.collect::<Vec<_>>());
            let all = |path: &str| RoutePath { namespaced: false, suffix: "ForAllNamespaces", ..place(path, &[]) };
            self.collection(&all(&resource.plural), everywhere, &list);
        }
    }

    fn subresource(&mut self, resource: &ResourceDescription, subresource: &SubresourceDescription) {
        let scope = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let kind = subresource.group_version_kind(resource);
        let mut place = RoutePath {
            path: format!("{scope}{}/{{name}}/{}", resource.plural, subresource.name),
            parameters: resource.namespaced.then(parameters::namespace).into_iter().collect(),
            definition: definition(self.kinds, &kind),
            noun: &resource.kind,
            subresource: &subresource.name,
            namespaced: resource.namespaced,
            suffix: "",
            kind,
        };
        place.parameters.push(parameters::name(&place.kind.kind));
        match subresource.role {
            SubresourceRole::Connect => {
                self.connect(&place, subresource.verbs);
                if takes_any_method(subresource.verbs) {
                    place.path.push_str("/{path}");
                    place.parameters.push(parameters::path());
                    place.suffix = "WithPath";
                    self.connect(&place, subresource.verbs);
                }
            }
            SubresourceRole::Log => {
                let text = Response::ok(Content::String);
                let mut operation = place.operation(
                    self.root,
                    "read",
                    "",
                    format!("read {} of the specified {}", place.subresource, place.noun),
                );
                operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "PodLogOptions", &[]));
                operation.parameters.push(parameters::pretty());
                operation.target = Some(("get", place.kind.clone()));
                self.add(&place, Operation { produces: LOGS, responses: vec![text], ..operation });
            }
            SubresourceRole::Create => self.collection(&place, subresource.verbs, &place.content()),
            SubresourceRole::Status | SubresourceRole::Scale | SubresourceRole::Update => {
                self.item(&place, subresource.verbs, false);
            }
        }
    }

    /// Adds the operations on many objects, or to create one.
    fn collection(&mut self, place: &RoutePath<'_>, verbs: Verbs, list: &Content) {
        let noun = place.noun;
        let watched = verbs.contains(Verb::Watch);
        if verbs.contains(Verb::List) {
            let doing = if watched { "list or watch" } else { "list" };
            let mut operation = place.operation(self.root, "list", "", format!("{doing} objects of kind {noun}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "ListOptions", &[]));
            operation.target = Some(("list", place.kind.clone()));
            let responses = vec![Response::ok(list.clone())];
            self.add(place, Operation { produces: OBJECTS_AND_STREAMS, responses, ..operation });
        }
        if verbs.contains(Verb::Create) {
            let article = article(noun);
            let description = match place.subresource {
                "" => format!("create{article}{noun}"),
                subresource => format!("create {subresource} of{article}{noun}"),
            };
            let mut operation = place.operation(self.root, "create", "", description);
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "CreateOptions", &[]));
            operation.body = Some(place.body());
            operation.target = Some(("post", place.kind.clone()));
            let content = place.content();
            operation.responses =
                vec![Response::ok(content.clone()), Response::created(content.clone()), Response::accepted(content)];
            self.add(place, operation);
        }
        if verbs.contains(Verb::DeleteCollection) {
            let mut operation =
                place.operation(self.root, "delete", "collection", format!("delete collection of {noun}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "DeleteOptions", &[]));
            let listed = parameters::of_options(self.kinds, "", "v1", "ListOptions", &["watch", "allowWatchBookmarks"]);
            operation.parameters.extend(listed);
            operation.body = Some(delete_options());
            operation.target = Some(("deletecollection", place.kind.clone()));
            operation.responses = vec![Response::ok(meta("Status"))];
            self.add(place, operation);
        }
        if watched && verbs.contains(Verb::List) {
            let watch = RoutePath {
                path: format!("watch/{}", place.path),
                parameters: place.parameters.clone(),
                kind: place.kind.clone(),
                definition: place.definition.clone(),
                ..*place
            };
            self.watch(&watch, "watchlist");
        }
    }

    /// Adds the operations on one object, or on one of its subresources.
    fn item(&mut self, place: &RoutePath<'_>, verbs: Verbs, returns_deleted: bool) {
        let (noun, content) = (place.noun, place.content());
        let object = match place.subresource {
            "" => format!("the specified {noun}"),
            subresource => format!("{subresource} of the specified {noun}"),
        };
        let written = || vec![Response::ok(content.clone()), Response::created(content.clone())];
        if verbs.contains(Verb::Get) {
            let mut operation = place.operation(self.root, "read", "", format!("read {object}"));
            operation.parameters.push(parameters::pretty());
            operation.target = Some(("get", place.kind.clone()));
            let responses = vec![Response::ok(content.clone())];
            self.add(place, Operation { responses, ..operation });
        }
        if verbs.contains(Verb::Update) {
            let mut operation = place.operation(self.root, "replace", "", format!("replace {object}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "UpdateOptions", &[]));
            operation.body = Some(place.body());
            operation.target = Some(("put", place.kind.clone()));
            self.add(place, Operation { responses: written(), ..operation });
        }
        if verbs.contains(Verb::Patch) {
            let mut operation = place.operation(self.root, "patch", "", format!("partially update {object}"));
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "PatchOptions", &[]));
            operation.body = Some(Body { definition: format!("{META}.Patch").into(), required: true });
            operation.target = Some(("patch", place.kind.clone()));
            self.add(place, Operation { consumes: PATCHES, responses: written(), ..operation });
        }
        if verbs.contains(Verb::Delete) {
            let description = format!("delete{}{noun}", article(noun));
            let mut operation = place.operation(self.root, "delete", "", description);
            operation.parameters.push(parameters::pretty());
            operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "DeleteOptions", &[]));
            operation.body = Some(delete_options());
            operation.target = Some(("delete", place.kind.clone()));
            let answer = if returns_deleted { content.clone() } else { meta("Status") };
            operation.responses = vec![Response::ok(answer.clone()), Response::accepted(answer)];
            self.add(place, operation);
        }
    }

    /// Adds the deprecated watch paths: `watch` for one object, `watchlist` for many.
    fn watch(&mut self, place: &RoutePath<'_>, action: &'static str) {
        let noun = place.noun;
        let (list, description) = if action == "watchlist" {
            let instead = "deprecated: use the 'watch' parameter with a list operation instead.";
            ("List", format!("watch individual changes to a list of {noun}. {instead}"))
        } else {
            let instead = "deprecated: use the 'watch' parameter with a list operation instead, filtered to a single \
                           item with the 'fieldSelector' parameter.";
            ("", format!("watch changes to an object of kind {noun}. {instead}"))
        };
        let mut operation = place.operation_of(self.root, "watch", "", list, description);
        operation.parameters.push(parameters::pretty());
        operation.parameters.extend(parameters::of_options(self.kinds, "", "v1", "ListOptions", &[]));
        operation.target = Some((action, place.kind.clone()));
        let responses = vec![Response::ok(meta("WatchEvent"))];
        self.add(place, Operation { produces: OBJECTS_AND_STREAMS, responses, ..operation });
    }

    fn connect(&mut self, place: &RoutePath<'_>, verbs: Verbs) {
        let GroupVersionKind { group, version, kind } = &place.kind;
        let options = parameters::of_options(self.kinds, group, version, kind, &[]);
        for method in connect_methods(verbs) {
            let verb = format!("connect{}", title(method.as_str()));
            let shown = method.as_str().to_uppercase();
            let description = format!("connect {shown} requests to {} of {}", place.subresource, place.noun);
            let rest = verb.strip_prefix("connect").unwrap_or_default();
            let mut operation = place.operation(self.root, "connect", rest, description);
            operation.parameters.extend(options.iter().cloned());
            operation.target = Some(("connect", place.kind.clone()));
            let responses = vec![Response::ok(Content::String)];
            self.add(place, Operation { method: *method, produces: ANYTHING, responses, ..operation });
        }
    }

    fn add(&mut self, place: &RoutePath<'_>, operation: Operation) {
        self.by_path.entry(format!("{}/{}", self.root, place.path)).or_default().push(operation);
    }
}

impl RoutePath<'_> {
    /// Returns an operation at this place, to be completed. `before` is the part of its id between group version and
    /// kind.
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

/// Returns true if the path forwards whole requests, since only then it has a DELETE.
fn takes_any_method(verbs: Verbs) -> bool {
    verbs.contains(Verb::Delete)
}

fn connect_methods(verbs: Verbs) -> &'static [Method] {
    use Method::{Delete, Get, Head, Options, Patch, Post, Put};
    if takes_any_method(verbs) { &[Get, Post, Put, Patch, Delete, Head, Options] } else { &[Get, Post] }
}

/// Returns the name of a kind's definition. A test ensures that the tables have the kinds of all resources.
fn definition(kinds: &dyn Kinds, kind: &GroupVersionKind) -> Text {
    kinds.kind(&kind.group, &kind.version, &kind.kind).map(|message| message.name.clone()).unwrap_or_default()
}

fn meta(kind: &str) -> Content {
    Content::Definition(format!("{META}.{kind}").into())
}

fn delete_options() -> Body {
    Body { definition: format!("{META}.DeleteOptions").into(), required: false }
}
