//! Operations of paths, the common model for both versions of OpenAPI.

use std::borrow::Cow;

use binnacle_meta::{GroupVersionKind, Text};

/// A path and its operations.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) path: String,
    /// The common parameters of all operations, by name.
    pub(crate) parameters: Vec<Parameter>,
    /// In the order of [`Method`].
    pub(crate) operations: Vec<Operation>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) description: String,
    pub(crate) id: String,
    pub(crate) tag: String,
    /// By name, without the body.
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    pub(crate) consumes: &'static [&'static str],
    pub(crate) produces: &'static [&'static str],
    /// Without the common 401.
    pub(crate) responses: Vec<Response>,
    /// The action and the kind; `None` for operations outside of resources.
    pub(crate) target: Option<(&'static str, GroupVersionKind)>,
}

/// HTTP methods, in the order of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Get,
    Put,
    Post,
    Delete,
    Options,
    Head,
    Patch,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parameter {
    pub(crate) name: Text,
    pub(crate) location: ParameterLocation,
    /// The JSON type.
    pub(crate) ty: &'static str,
    pub(crate) description: Cow<'static, str>,
    /// The name of the shared parameter in version 2, if kube-apiserver derives it from its own description.
    pub(crate) shared_name: Option<&'static str>,
}

/// The location of a parameter, in the order of parameters with equal names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ParameterLocation {
    /// Always required.
    Path,
    Query,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Body {
    /// The name of the definition.
    pub(crate) definition: Text,
    pub(crate) required: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) code: &'static str,
    pub(crate) description: &'static str,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The name of a definition.
    Definition(Text),
    String,
}

impl Path {
    /// Sorts operations and parameters, and moves parameters that are common to all operations to the path. If their
    /// descriptions differ, the last one is used.
    pub(crate) fn new(path: String, mut operations: Vec<Operation>) -> Self {
        let mut parameters: Vec<Parameter> = Vec::new();
        if let Some((last, others)) = operations.split_last() {
            let shared = |parameter: &&Parameter| {
                others
                    .iter()
                    .all(|operation| operation.parameters.iter().any(|other| other.is_same_parameter(parameter)))
            };
            parameters = last.parameters.iter().filter(shared).cloned().collect();
        }
        for operation in &mut operations {
            operation.parameters.retain(|own| !parameters.iter().any(|shared| shared.is_same_parameter(own)));
            operation.parameters.sort_by(Parameter::compare);
        }
        parameters.sort_by(Parameter::compare);
        operations.sort_by_key(|operation| operation.method);
        Self { path, parameters, operations }
    }

    /// Returns the definitions of bodies and responses.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Text> {
        self.operations.iter().flat_map(|operation| {
            let responses = operation.responses.iter().filter_map(|response| match &response.content {
                Content::Definition(name) => Some(name),
                Content::String => None,
            });
            operation.body.iter().map(|body| &body.definition).chain(responses)
        })
    }
}

impl Method {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Post => "post",
            Self::Delete => "delete",
            Self::Options => "options",
            Self::Head => "head",
            Self::Patch => "patch",
        }
    }
}

impl Parameter {
    fn is_same_parameter(&self, other: &Self) -> bool {
        (&self.name, self.location) == (&other.name, other.location)
    }

    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        (&self.name, self.location).cmp(&(&other.name, other.location))
    }
}

impl ParameterLocation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
        }
    }
}

impl Response {
    pub(crate) fn ok(content: Content) -> Self {
        Self { code: "200", description: "OK", content }
    }

    pub(crate) fn created(content: Content) -> Self {
        Self { code: "201", description: "Created", content }
    }

    pub(crate) fn accepted(content: Content) -> Self {
        Self { code: "202", description: "Accepted", content }
    }
}
