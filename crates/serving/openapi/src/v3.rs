//! Documents of version 3, one for each group version.

use binnacle_meta::GroupVersionKind;

use crate::definitions::{Definitions, Dialect, reachable};
use crate::json::Json;
use crate::operation::{Content, Operation, Parameter, ParameterLocation, Path};
use crate::{CUSTOM_TITLE, TITLE};

/// Returns the document of these paths in a release; `None` for custom resources, whose documents have a fixed version
/// and no authentication.
pub(crate) fn document(paths: &[Path], definitions: &dyn Definitions, release: Option<&str>) -> Vec<u8> {
    let title = release.map_or(CUSTOM_TITLE, |release| [TITLE, release]);
    let mut json = Json::new();
    json.object(|json| {
        json.text_member("openapi", "3.0.0");
        json.name("info").object(|json| {
            json.text_member("title", title[0]);
            json.text_member("version", title[1]);
        });
        json.name("paths").object(|json| {
            for path in paths {
                json.name(&path.path).object(|json| write_path(path, json));
            }
        });
        json.name("components").object(|json| {
            let names = reachable(definitions, paths.iter().flat_map(Path::definitions).cloned());
            if !names.is_empty() {
                json.name("schemas").object(|json| {
                    for name in &names {
                        definitions.write(name, Dialect::V3, json.name(name));
                    }
                });
            }
            if release.is_none() {
                return;
            }
            json.name("securitySchemes").object(|json| {
                json.name("BearerToken").object(|json| {
                    json.text_member("type", "apiKey");
                    json.text_member("description", "Bearer Token authentication");
                    json.text_member("name", "authorization");
                    json.text_member("in", "header");
                });
            });
        });
    });
    json.into_bytes()
}

fn write_path(path: &Path, json: &mut Json) {
    for operation in &path.operations {
        json.name(operation.method.as_str()).object(|json| write_operation(operation, json));
    }
    write_parameters(&path.parameters, json);
}

fn write_operation(operation: &Operation, json: &mut Json) {
    json.texts_member("tags", [&operation.tag]);
    json.text_member("description", &operation.description);
    json.text_member("operationId", &operation.id);
    write_parameters(&operation.parameters, json);
    if let Some(body) = &operation.body {
        json.name("requestBody").object(|json| {
            write_content(operation.consumes, &Content::Definition(body.definition.clone()), json);
            if body.required {
                json.true_member("required");
            }
        });
    }
    json.name("responses").object(|json| {
        for response in &operation.responses {
            json.name(response.code).object(|json| {
                json.text_member("description", response.description);
                write_content(operation.produces, &response.content, json);
            });
        }
        json.name("401").object(|json| json.text_member("description", "Unauthorized"));
    });
    if let Some((action, GroupVersionKind { group, version, kind })) = &operation.target {
        json.text_member("x-kubernetes-action", action);
        json.name("x-kubernetes-group-version-kind").object(|json| {
            json.text_member("group", group);
            json.text_member("version", version);
            json.text_member("kind", kind);
        });
    }
}

fn write_parameters(parameters: &[Parameter], json: &mut Json) {
    if parameters.is_empty() {
        return;
    }
    json.name("parameters").list(|json| {
        for parameter in parameters {
            json.object(|json| {
                json.text_member("name", &parameter.name);
                json.text_member("in", parameter.location.as_str());
                if !parameter.description.is_empty() {
                    json.text_member("description", &parameter.description);
                }
                if parameter.location == ParameterLocation::Path {
                    json.true_member("required");
                }
                json.name("schema").object(|json| {
                    json.text_member("type", parameter.ty);
                    json.true_member("uniqueItems");
                });
            });
        }
    });
}

/// Writes an entry for each media type, sorted by name.
fn write_content(media_types: &[&str], content: &Content, json: &mut Json) {
    let mut media_types = media_types.to_vec();
    media_types.sort_unstable();
    json.name("content").object(|json| {
        for media_type in media_types {
            json.name(media_type).object(|json| {
                json.name("schema").object(|json| match content {
                    Content::Definition(name) => Dialect::V3.reference(name, json),
                    Content::String => json.text_member("type", "string"),
                });
            });
        }
    });
}
