//! The document of version 2, which covers all resources.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_request::Pieces;
use binnacle_scheme::{Kinds, OpenApiVersion, ResourceDescription};
use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest, Sha512};

use crate::TITLE;
use crate::custom_resources;
use crate::definitions::{BuiltIn, Definitions, Dialect, reachable};
use crate::json::Json;
use crate::operation::{Body, Content, Operation, Parameter, ParameterLocation, Path};
use crate::parts::{Chunks, CompressedRuns, Part, PathParts, Section};
use crate::protobuf::{self, shapes};

/// The document in all formats, each built at the first request.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) hash: String,
    pub(crate) json: Pieces,
    /// The text, if it was merged from several servers and so has no parts.
    merged: Option<Bytes>,
    head: Vec<u8>,
    tail: Vec<u8>,
    paths: BTreeMap<String, Arc<Part>>,
    definitions: BTreeMap<Text, Arc<Part>>,
    reusable: Arc<ReusableParts>,
    /// `None` if the document cannot be encoded in protobuf.
    protobuf: OnceLock<Option<Pieces>>,
    /// The compressed JSON and protobuf. `None` if compression failed.
    compressed: [OnceLock<Option<Pieces>>; 2],
}

/// The parts of one custom resource.
#[derive(Debug)]
pub(crate) struct CustomParts {
    pub(crate) description: Arc<ResourceDescription>,
    parts: OnceLock<(PathParts, NamedParts)>,
}

type NamedParts = Vec<(Text, Arc<Part>)>;

/// The parts that the next document reuses, besides those of paths and custom resources.
#[derive(Debug, Default)]
pub(crate) struct ReusableParts {
    built_in: BuiltInParts,
    /// For JSON and for protobuf.
    compressed: [CompressedRuns; 2],
}

/// The definitions of the field tables in a document, and the names from which they are reachable.
#[derive(Debug, Default)]
struct BuiltInParts(Mutex<Option<(BTreeSet<Text>, NamedParts)>>);

impl Document {
    /// Builds the document of the built-in paths and the custom resources.
    pub(crate) fn new(
        built_in: &[Arc<PathParts>],
        resources: &[Arc<CustomParts>],
        kinds: &dyn Kinds,
        shows_enums: bool,
        reusable: &Arc<ReusableParts>,
        release: &str,
    ) -> Self {
        let custom_parts: Vec<&(PathParts, NamedParts)> =
            resources.iter().map(|resource| resource.parts(kinds)).collect();
        let of_paths: Vec<&PathParts> =
            built_in.iter().map(|parts| &**parts).chain(custom_parts.iter().map(|(paths, _)| paths)).collect();
        let paths = of_paths.iter().flat_map(|parts| &parts.parts).cloned().collect();
        let parameters = of_paths.iter().flat_map(|parts| &parts.parameters).collect();
        let mut roots: BTreeSet<Text> = of_paths.iter().flat_map(|parts| &parts.definitions).cloned().collect();
        let mut definitions = BTreeMap::new();
        for (name, part) in custom_parts.iter().flat_map(|(_, definitions)| definitions) {
            roots.remove(name);
            definitions.insert(name.clone(), part.clone());
        }
        if !resources.is_empty() {
            roots.extend(custom_resources::REFERENCED.map(Text::new_static));
        }
        definitions.extend(reusable.built_in.reachable_parts(roots, kinds, shows_enums));
        let (head, tail) = (head(release), tail(&parameters));
        let mut document = Self {
            hash: String::new(),
            json: Pieces::default(),
            merged: None,
            head,
            tail,
            paths,
            definitions,
            reusable: reusable.clone(),
            protobuf: OnceLock::new(),
            compressed: Default::default(),
        };
        document.hash = document.digest();
        document.json = document.json_chunks().plain();
        document
    }

    /// Replaces the text by one that was merged with the documents of remote servers.
    pub(crate) fn with_merged(self, merged: Bytes) -> Self {
        let (json, hash) = (merged.clone().into(), hex(&Sha512::digest(&merged)));
        Self { hash, json, merged: Some(merged), protobuf: OnceLock::new(), compressed: Default::default(), ..self }
    }

    pub(crate) fn protobuf(&self) -> Option<Pieces> {
        self.protobuf.get_or_init(|| Some(self.protobuf_chunks()?.plain())).clone()
    }

    pub(crate) fn compressed_json(&self) -> Option<Pieces> {
        self.compressed[0].get_or_init(|| self.json_chunks().compressed(&self.reusable.compressed[0])).clone()
    }

    pub(crate) fn compressed_protobuf(&self) -> Option<Pieces> {
        self.compressed[1].get_or_init(|| self.protobuf_chunks()?.compressed(&self.reusable.compressed[1])).clone()
    }

    /// Returns a hash of the hashes of all parts, so that unchanged parts are not hashed again.
    fn digest(&self) -> String {
        let mut hash = Sha512::new();
        for part in self.paths.values().chain(self.definitions.values()) {
            hash.update(part.hash());
        }
        for bytes in [&self.head, &self.tail] {
            hash.update(Sha512::digest(bytes));
        }
        hex(&hash.finalize())
    }

    fn json_chunks(&self) -> Chunks {
        let mut chunks = Chunks::default();
        if let Some(merged) = &self.merged {
            chunks.push_own(merged.clone());
            return chunks;
        }
        // The outer braces are those of the document.
        chunks.push_own([&self.head[..self.head.len() - 1], b",\"paths\":{"].concat());
        chunks.members(self.paths.values().map(|part| &**part));
        chunks.push_own("},\"definitions\":{");
        chunks.members(self.definitions.values().map(|part| &**part));
        chunks.push_own([b"},", &self.tail[1..]].concat());
        chunks
    }

    fn protobuf_chunks(&self) -> Option<Chunks> {
        let mut chunks = Chunks::default();
        let transcode = |json| protobuf::transcode(json, &shapes::V2).ok();
        if let Some(merged) = &self.merged {
            chunks.push_own(transcode(merged)?);
            return Some(chunks);
        }
        chunks.push_own(transcode(&self.head)?);
        let parts: Vec<&Part> = self.paths.values().map(|part| &**part).collect();
        chunks.field(Section::Paths, &parts)?;
        let parts: Vec<&Part> = self.definitions.values().map(|part| &**part).collect();
        chunks.field(Section::Definitions, &parts)?;
        chunks.push_own(transcode(&self.tail)?);
        Some(chunks)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

impl CustomParts {
    pub(crate) fn new(description: Arc<ResourceDescription>) -> Self {
        Self { description, parts: OnceLock::new() }
    }

    fn parts(&self, kinds: &dyn Kinds) -> &(PathParts, NamedParts) {
        self.parts.get_or_init(|| {
            let resource = &self.description;
            let paths = path_parts(custom_resources::paths(kinds, std::slice::from_ref(resource)));
            let definitions = custom_resources::definitions_of(kinds, resource, OpenApiVersion::V2).into_iter();
            let definitions = definitions.map(|(name, json)| {
                let part = Part::new(&name, |out| out.raw(json));
                (name, Arc::new(part))
            });
            (paths, definitions.collect())
        })
    }
}

impl BuiltInParts {
    /// Returns the definitions that are reachable from these names.
    fn reachable_parts(&self, roots: BTreeSet<Text>, kinds: &dyn Kinds, shows_enums: bool) -> NamedParts {
        let mut cache = self.0.lock();
        if let Some((cached_roots, parts)) = &*cache
            && *cached_roots == roots
        {
            return parts.clone();
        }
        let definitions = BuiltIn::new(kinds, None).with_enum_values(shows_enums);
        let names = reachable(&definitions, roots.iter().cloned()).into_iter();
        let parts = names.map(|name| {
            let part = Part::new(&name, |json| definitions.write(&name, Dialect::V2, json));
            (name, Arc::new(part))
        });
        let parts: NamedParts = parts.collect();
        *cache = Some((roots, parts.clone()));
        parts
    }
}

/// Returns the parts of paths, with the parameters and definitions that they need.
pub(crate) fn path_parts(paths: Vec<Path>) -> PathParts {
    let shared = SharedParameters::collect(&paths);
    let parts = paths.iter().map(|path| {
        let part = Part::new(&path.path, |json| {
            json.object(|json| {
                for operation in &path.operations {
                    json.name(operation.method.as_str()).object(|json| write_operation(operation, &shared, json));
                }
                write_parameters(None, &path.parameters, &shared, json);
            });
        });
        (path.path.clone(), Arc::new(part))
    });
    PathParts {
        parts: parts.collect(),
        parameters: shared.encode(),
        definitions: paths.iter().flat_map(Path::definitions).cloned().collect(),
    }
}

/// Returns the members before the paths, as an object.
fn head(release: &str) -> Vec<u8> {
    let mut json = Json::new();
    json.object(|json| {
        json.text_member("swagger", "2.0");
        json.name("info").object(|json| {
            json.text_member("title", TITLE);
            json.text_member("version", release);
        });
    });
    json.into_bytes()
}

/// Returns the members after the definitions, as an object.
fn tail(parameters: &BTreeMap<&String, &Bytes>) -> Vec<u8> {
    let mut json = Json::new();
    json.object(|json| {
        json.name("parameters").object(|json| {
            parameters.iter().for_each(|(name, parameter)| json.name(name).raw(parameter));
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

fn write_operation(operation: &Operation, shared: &SharedParameters<'_>, json: &mut Json) {
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

/// Writes parameters by name; the body is one of them.
fn write_parameters(body: Option<&Body>, parameters: &[Parameter], shared: &SharedParameters<'_>, json: &mut Json) {
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
        json.text_member("in", parameter.location.as_str());
        if parameter.location == ParameterLocation::Path {
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

/// Parameters, nearly all of them, that the document defines once, to be referenced by name.
#[derive(Default)]
struct SharedParameters<'a> {
    parameters: HashMap<&'a Parameter, String>,
    bodies: HashMap<&'a Body, String>,
}

impl<'a> SharedParameters<'a> {
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
            // All other bodies have the kind in their names.
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

    /// Returns all parameters by name, including bodies, whose names begin with `body`.
    fn encode(&self) -> BTreeMap<String, Bytes> {
        let encode = |write: &dyn Fn(&mut Json)| {
            let mut json = Json::new();
            write(&mut json);
            Bytes::from(json.into_bytes())
        };
        let parameters = self.parameters.iter();
        let parameters = parameters.map(|(parameter, name)| (name, encode(&|json| write_parameter(parameter, json))));
        let bodies = self.bodies.iter().map(|(body, name)| (name, encode(&|json| write_body(body, json))));
        parameters.chain(bodies).map(|(name, json)| (name.clone(), json)).collect()
    }
}

fn write_reference(name: &str, json: &mut Json) {
    json.object(|json| json.text_member("$ref", &format!("#/parameters/{name}")));
}

/// Returns true for shared parameters. `name` depends on the kind; old versions of kubectl look for the other two to
/// detect features.
fn is_shared(parameter: &Parameter) -> bool {
    let name = parameter.name.as_str();
    name != "name" && !(parameter.location == ParameterLocation::Query && matches!(name, "fieldValidation" | "dryRun"))
}

/// Returns the name of a shared parameter: its own, and eight characters of the FNV-1 hash of its JSON.
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

    /// Parameters with kube-apiserver's descriptions have the same names as in kube-apiserver.
    #[test]
    fn names_shared_parameters_like_kube_apiserver() {
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
