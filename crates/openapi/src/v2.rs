//! The document of version 2, which shows everything at once.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use binnacle_meta::{GroupVersionKind, Text};

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
        json.name("parameters").object(|json| {
            for (name, parameter) in shared.by_name() {
                json.name(name).raw(parameter);
            }
        });
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

fn write_operation(operation: &Operation, shared: &Shared, json: &mut Json) {
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
fn write_parameters(body: Option<&Body>, parameters: &[Parameter], shared: &Shared, json: &mut Json) {
    if body.is_none() && parameters.is_empty() {
        return;
    }
    let mut all: Vec<(&str, &str, Vec<u8>)> = Vec::with_capacity(parameters.len() + 1);
    all.extend(body.map(|body| ("body", "body", body_json(body))));
    all.extend(
        parameters
            .iter()
            .map(|parameter| (parameter.name.as_str(), parameter.place.as_str(), parameter_json(parameter))),
    );
    all.sort();
    json.name("parameters").list(|json| {
        for (_, _, parameter) in all {
            match shared.names.get(&parameter) {
                Some(name) => json.object(|json| json.text_member("$ref", &format!("#/parameters/{name}"))),
                None => json.raw(&parameter),
            }
        }
    });
}

fn parameter_json(parameter: &Parameter) -> Vec<u8> {
    let mut json = Json::new();
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
    json.into_bytes()
}

fn body_json(body: &Body) -> Vec<u8> {
    let mut json = Json::new();
    json.object(|json| {
        json.text_member("name", "body");
        json.text_member("in", "body");
        if body.required {
            json.true_member("required");
        }
        json.name("schema").object(|json| Dialect::V2.reference(&body.definition, json));
    });
    json.into_bytes()
}

/// Parameters that stand in the document once and are referred to: nearly all of them.
struct Shared {
    /// The names by the JSON of the parameter.
    names: BTreeMap<Vec<u8>, String>,
}

impl Shared {
    fn collect(paths: &[Path]) -> Self {
        let mut all = BTreeSet::new();
        for path in paths {
            let of_operations = path.operations.iter().flat_map(|operation| &operation.parameters);
            let parameters = path.parameters.iter().chain(of_operations);
            all.extend(parameters.filter(|p| is_shared(p)).map(|p| (p.name.clone(), parameter_json(p))));
            let bodies = path.operations.iter().filter_map(|operation| operation.body.as_ref());
            let generic = bodies.filter(|body| body.definition.starts_with("io.k8s.apimachinery"));
            all.extend(generic.map(|body| (Text::new_static("body"), body_json(body))));
        }
        let names = all.into_iter().map(|(name, json)| {
            let name = format!("{name}-{}", digest(&json));
            (json, name)
        });
        Self { names: names.collect() }
    }

    fn by_name(&self) -> BTreeMap<&str, &[u8]> {
        self.names.iter().map(|(json, name)| (name.as_str(), json.as_slice())).collect()
    }
}

/// The name tells of the kind; by the other two, old versions of kubectl find out what the server can do.
fn is_shared(parameter: &Parameter) -> bool {
    let name = parameter.name.as_str();
    name != "name" && !(parameter.place == Place::Query && matches!(name, "fieldValidation" | "dryRun"))
}

/// Eight characters of FNV-1.
fn digest(json: &[u8]) -> String {
    let hash = json
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte));
    URL_SAFE.encode(&hash.to_be_bytes()[..6])
}
