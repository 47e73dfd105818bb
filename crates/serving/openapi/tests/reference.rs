//! Compares the documents with recorded ones. All differences except descriptions are reported.
#![expect(clippy::unwrap_used, reason = "a test may panic in its helpers, too")]

use binnacle_kinds::BuiltInKinds;
use binnacle_openapi::{OpenApi, OpenApiRequest, OpenApiResponse};
use binnacle_resources::{default_served, groups};
use binnacle_scheme::{Release, ServedResources, Shared};
use binnacle_test_requirements::shared;
use serde_json::Value;

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn v3_documents_equal_recorded_ones() {
    let folder = shared("reference/openapi/v3");
    let documents = documents_of(default_served());
    let mut findings = Findings::default();
    let mut compared = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().strip_suffix(".json").unwrap();
        if name == "index" {
            continue;
        }
        let recorded = parse(&std::fs::read(&file).unwrap());
        let ours = parse(&get(&documents, &format!("/openapi/v3/{}", name.replace('_', "/"))));
        findings.compare(name, &recorded, &ours);
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
    findings.report(&format!("{compared} documents"));
}

/// All versions, including alpha and beta, as Kubernetes publishes them with its sources.
#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn published_documents_of_all_versions_equal_recorded_ones() {
    let folder = shared("reference/openapi/all-v3");
    let documents = documents_of(all_resources());
    let mut findings = Findings::default();
    let mut compared = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().strip_suffix("_openapi.json").unwrap();
        // Served only if enabled, by another handler.
        if name == "logs" {
            continue;
        }
        let mut recorded = parse(&std::fs::read(&file).unwrap());
        // OpenApiDefinitions before the version is set.
        assert_eq!(recorded["info"]["version"], "unversioned");
        recorded["info"]["version"] = "1.36".into();
        // OpenApiDefinitions with other features: with CBOR, without enums.
        remove(&mut recorded, &|name, _| name.starts_with("application/") && name.contains("cbor"));
        let mut ours = parse(&get(&documents, &format!("/openapi/v3/{}", name.replace("__", "/"))));
        remove(&mut ours, &|name, value| name == "enum" && value.is_array());
        without_values(&mut ours);
        findings.compare(name, &recorded, &ours);
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
    findings.report(&format!("{compared} published documents"));
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn v3_index_equals_recorded_one() {
    let folder = shared("reference/openapi/v3");
    let documents = documents_of(default_served());
    let recorded = parse(&std::fs::read(folder.join("index.json")).unwrap());
    let ours = parse(&get(&documents, "/openapi/v3"));
    let names = |index: &Value| index["paths"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&recorded));
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn v2_document_equals_recorded_one() {
    let folder = shared("reference/openapi");
    let documents = documents_of(default_served());
    let recorded = parse(&std::fs::read(folder.join("v2.json")).unwrap());
    let ours = parse(&get(&documents, "/openapi/v2"));
    let mut findings = Findings::default();
    findings.compare("v2", &recorded, &ours);
    findings.report("version 2");
}

/// Removes members, at any depth.
fn remove(value: &mut Value, which: &dyn Fn(&str, &Value) -> bool) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| !which(name, member));
            members.values_mut().for_each(|member| remove(member, which));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| remove(element, which)),
        _ => {}
    }
}

/// Removes the values of enums from descriptions.
fn without_values(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(without_values),
        Value::Array(elements) => elements.iter_mut().for_each(without_values),
        Value::String(text) => {
            if let Some(end) = text.find("Possible enum values:") {
                text.truncate(end);
            }
        }
        _ => {}
    }
}

#[derive(Default)]
struct Findings {
    differences: Vec<String>,
    same_sentences: usize,
    other_sentences: Vec<String>,
    missing_sentences: Vec<String>,
}

impl Findings {
    fn compare(&mut self, at: &str, recorded: &Value, ours: &Value) {
        match (recorded, ours) {
            (Value::Object(recorded), Value::Object(ours)) => {
                for name in recorded.keys().chain(ours.keys().filter(|name| !recorded.contains_key(*name))) {
                    let at = format!("{at} > {name}");
                    match (recorded.get(name), ours.get(name)) {
                        (recorded @ (Some(Value::String(_)) | None), ours @ (Some(Value::String(_)) | None))
                            if name == "description" =>
                        {
                            self.sentence(at, recorded, ours);
                        }
                        (Some(recorded), Some(ours)) => self.compare(&at, recorded, ours),
                        (Some(recorded), None) => self.differences.push(format!("{at}: missing {}", short(recorded))),
                        (None, ours) => self.differences.push(format!("{at}: in excess {}", short(ours.unwrap()))),
                    }
                }
            }
            (Value::Array(recorded), Value::Array(ours)) if recorded.len() == ours.len() => {
                for (index, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
                    self.compare(&format!("{at} > {index}"), recorded, ours);
                }
            }
            _ if recorded == ours => {}
            _ => self.differences.push(format!("{at}: {} instead of {}", short(ours), short(recorded))),
        }
    }

    /// Compares descriptions. Their sources differ, but there must be a description wherever kube-apiserver has one.
    fn sentence(&mut self, at: String, recorded: Option<&Value>, ours: Option<&Value>) {
        let values = |text: Option<&Value>| {
            let (_, values) = text?.as_str()?.split_once("Possible enum values:\n")?;
            let one = |line: &str| {
                let (value, words) = line.strip_prefix(" - `")?.split_once('`')?;
                Some((value.to_owned(), !words.trim().is_empty()))
            };
            Some(values.lines().map(one).collect::<Vec<_>>())
        };
        if values(recorded) != values(ours) {
            self.differences.push(format!("{at}: {ours:?} instead of {recorded:?}"));
        }
        let before_values = |text: &str| {
            let end = text.find("Possible enum values:").unwrap_or(text.len());
            text[..end].trim().to_owned()
        };
        let text = |value: Option<&Value>| value.map_or(String::new(), |value| before_values(value.as_str().unwrap()));
        match (text(recorded), text(ours)) {
            (recorded, ours) if recorded == ours => self.same_sentences += 1,
            (_, ours) if ours.is_empty() => self.missing_sentences.push(at),
            (recorded, ours) => self.other_sentences.push(format!("{at}: {ours:?} instead of {recorded:?}")),
        }
    }

    fn report(&self, document: &str) {
        println!(
            "{document}: {} differences, {} sentences are the same, {} differ, {} are missing",
            self.differences.len(),
            self.same_sentences,
            self.other_sentences.len(),
            self.missing_sentences.len()
        );
        // Options, lists and enum values have their own descriptions; all others come from the dependency.
        let own = |at: &&String| !at.contains(" > parameters > ") && !at.contains("List > ");
        let other: Vec<_> = self.missing_sentences.iter().chain(self.other_sentences.iter().filter(own)).collect();
        assert!(other.is_empty(), "{other:#?}");
        assert!(self.differences.is_empty(), "{}", self.differences.join("\n"));
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(200).collect()
}

fn get(documents: &OpenApi, path: &str) -> Vec<u8> {
    match documents.respond(&OpenApiRequest { path, ..OpenApiRequest::default() }) {
        Some(OpenApiResponse::Document(document)) => document.body.into_bytes().to_vec(),
        Some(OpenApiResponse::Index(body)) => body.to_vec(),
        other => panic!("{path}: {other:?}"),
    }
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Returns all resources.
fn all_resources() -> ServedResources {
    let release = Release::v1(36);
    ServedResources::built_in(groups(), |_, resource| resource.lifecycle.exists_in(release).then(|| resource.clone()))
}

fn documents_of(served: ServedResources) -> OpenApi {
    OpenApi::new(served.into(), Shared::Static(&BuiltInKinds))
}
