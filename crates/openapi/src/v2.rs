//! The document of version 2, which shows everything at once.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use binnacle_meta::GroupVersionKind;

use crate::TITLE;
use crate::definitions::{Definitions, Dialect, reachable};
use crate::json::Json;
use crate::operation::{Body, Content, Operation, Parameter, Path, Place};

/// The document of these paths.
pub(crate) fn document(mut paths: Vec<Path>, definitions: &dyn Definitions) -> Vec<u8> {
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    let shared = Shared::collect(&paths);
    let mut json = Json::new();
    json.object(|json| {
        json.text_member("swagger", "2.0");
        json.name("info").object(|json| {
            json.text_member("title", TITLE[0]);
            json.text_member("version", TITLE[1]);
        });
        json.name("paths").object(|json| {
            for path in &paths {
                json.name(&path.path).object(|json| {
                    for operation in &path.operations {
                        json.name(operation.method.as_str()).object(|json| write_operation(operation, &shared, json));
                    }
                    write_parameters(None, &path.parameters, &shared, json);
                });
            }
        });
        json.name("definitions").object(|json| {
            for name in reachable(definitions, paths.iter().flat_map(Path::definitions).cloned()) {
                definitions.write(&name, Dialect::V2, json.name(&name));
            }
        });
        json.name("parameters").object(|json| shared.write(json));
        json.name("securityDefinitions").object(|json| {
            json.name("BearerToken").object(|json| {
                json.text_member("description", "Bearer Token authentication");
                json.text_member("type", "apiKey");
                json.text_member("name", "authorization");
                json.text_member("in", "header");
            });
        });
        json.name("security").list(|json| json.object(|json| json.name("BearerToken").list(|_| {})));
    });
    json.into_bytes()
}

fn write_operation(operation: &Operation, shared: &Shared<'_>, json: &mut Json) {
    json.text_member("description", &operation.description);
    if !operation.consumes.is_empty() {
        json.texts_member("consumes", operation.consumes);
    }
    json.texts_member("produces", operation.produces);
    json.texts_member("schemes", ["https"]);
    json.texts_member("tags", [&operation.tag]);
    json.text_member("operationId", &operation.id);
    write_parameters(operation.body.as_ref(), &operation.parameters, shared, json);
    json.name("responses").object(|json| {
        for response in &operation.responses {
            json.name(response.code).object(|json| {
                json.text_member("description", response.description);
                json.name("schema").object(|json| match &response.content {
                    Content::Definition(name) => Dialect::V2.reference(name, json),
                    Content::String => json.text_member("type", "string"),
                });
            });
        }
        json.name("401").object(|json| json.text_member("description", "Unauthorized"));
    });
    if let Some((action, GroupVersionKind { group, version, kind })) = &operation.target {
        json.text_member("x-kubernetes-action", action);
        json.name("x-kubernetes-group-version-kind").object(|json| {
            json.text_member("group", group);
            json.text_member("kind", kind);
            json.text_member("version", version);
        });
    }
}

/// Parameters by name; the body is one of them.
fn write_parameters(body: Option<&Body>, parameters: &[Parameter], shared: &Shared<'_>, json: &mut Json) {
    if body.is_none() && parameters.is_empty() {
        return;
    }
    let (before, after) = parameters.split_at(parameters.partition_point(|parameter| parameter.name < "body"));
    json.name("parameters").list(|json| {
        before.iter().for_each(|parameter| shared.write_parameter(parameter, json));
        body.iter().for_each(|body| shared.write_body(body, json));
        after.iter().for_each(|parameter| shared.write_parameter(parameter, json));
    });
}

fn write_parameter(parameter: &Parameter, json: &mut Json) {
    json.object(|json| {
        json.true_member("uniqueItems");
        json.text_member("type", parameter.ty);
        if !parameter.description.is_empty() {
            json.text_member("description", &parameter.description);
        }
        json.text_member("name", &parameter.name);
        json.text_member("in", parameter.place.as_str());
        if parameter.place == Place::Path {
            json.true_member("required");
        }
    });
}

fn write_body(body: &Body, json: &mut Json) {
    json.object(|json| {
        json.text_member("name", "body");
        json.text_member("in", "body");
        if body.required {
            json.true_member("required");
        }
        json.name("schema").object(|json| Dialect::V2.reference(&body.definition, json));
    });
}

/// Parameters that stand in the document once and are referred to, with their names: nearly all of them.
#[derive(Default)]
struct Shared<'a> {
    parameters: HashMap<&'a Parameter, String>,
    bodies: HashMap<&'a Body, String>,
}

impl<'a> Shared<'a> {
    fn collect(paths: &'a [Path]) -> Self {
        let mut shared = Self::default();
        for path in paths {
            let of_operations = path.operations.iter().flat_map(|operation| &operation.parameters);
            for parameter in path.parameters.iter().chain(of_operations).filter(|parameter| is_shared(parameter)) {
                shared.parameters.entry(parameter).or_insert_with(|| match parameter.shared_name {
                    Some(name) => format!("{}-{name}", parameter.name),
                    None => digest(&parameter.name, |json| write_parameter(parameter, json)),
                });
            }
            // All others name the kind.
            let bodies = path.operations.iter().filter_map(|operation| operation.body.as_ref());
            for body in bodies.filter(|body| body.definition.starts_with("io.k8s.apimachinery")) {
                shared.bodies.entry(body).or_insert_with(|| digest("body", |json| write_body(body, json)));
            }
        }
        shared
    }

    fn write_parameter(&self, parameter: &Parameter, json: &mut Json) {
        match self.parameters.get(parameter) {
            Some(name) => write_reference(name, json),
            None => write_parameter(parameter, json),
        }
    }

    fn write_body(&self, body: &Body, json: &mut Json) {
        match self.bodies.get(body) {
            Some(name) => write_reference(name, json),
            None => write_body(body, json),
        }
    }

    /// All of them as members, by name.
    fn write(&self, json: &mut Json) {
        let mut parameters: Vec<_> = self.parameters.iter().map(|(parameter, name)| (name, parameter)).collect();
        let mut bodies: Vec<_> = self.bodies.iter().map(|(body, name)| (name, body)).collect();
        parameters.sort_by_key(|(name, _)| *name);
        bodies.sort_by_key(|(name, _)| *name);
        let (before, after) = parameters.split_at(parameters.partition_point(|(name, _)| name.as_str() < "body"));
        before.iter().for_each(|(name, parameter)| write_parameter(parameter, json.name(name)));
        bodies.iter().for_each(|(name, body)| write_body(body, json.name(name)));
        after.iter().for_each(|(name, parameter)| write_parameter(parameter, json.name(name)));
    }
}

fn write_reference(name: &str, json: &mut Json) {
    json.object(|json| json.text_member("$ref", &format!("#/parameters/{name}")));
}

/// The name tells of the kind; by the other two, old versions of kubectl find out what the server can do.
fn is_shared(parameter: &Parameter) -> bool {
    let name = parameter.name.as_str();
    name != "name" && !(parameter.place == Place::Query && matches!(name, "fieldValidation" | "dryRun"))
}

/// The name of a shared parameter: its own and eight characters of FNV-1 of its JSON.
fn digest(name: &str, write: impl FnOnce(&mut Json)) -> String {
    let mut json = Json::new();
    write(&mut json);
    let hash = json
        .into_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte));
    format!("{name}-{}", URL_SAFE.encode(&hash.to_be_bytes()[..6]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters;

    /// The names of parameters whose words are the reference's are the reference's, too.
    #[test]
    fn names_of_shared_parameters() {
        for (parameter, want) in [
            (parameters::pretty(), "pretty-tJGM1-ng"),
            (parameters::namespace(), "namespace-vgWSWtn3"),
            (parameters::path(), "path-z6Ciiujn"),
        ] {
            assert_eq!(digest(&parameter.name, |json| write_parameter(&parameter, json)), want);
        }
        let body = |kind: &str, required| Body {
            definition: format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}").into(),
            required,
        };
        for (body, want) in [(body("DeleteOptions", false), "body-2Y1dVQaQ"), (body("Patch", true), "body-78PwaGsr")] {
            assert_eq!(digest("body", |json| write_body(&body, json)), want);
        }
    }
}
