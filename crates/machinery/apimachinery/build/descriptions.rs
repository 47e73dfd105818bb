//! Collects the descriptions of `k8s-openapi` in one text with tables of positions: constant data that the program only
//! reads on request. The crate and its schemas are not linked into the program.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

use schemars::SchemaGenerator;
use serde_json::Value;

/// Writes `texts.txt` and `descriptions.rs` to the build's output folder.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let mut generator = SchemaGenerator::default();
    crate::roots::add_to(&mut generator);
    // Sorted, for binary search.
    let mut schemas: BTreeMap<String, Value> = generator.take_definitions(false).into_iter().collect();
    part_watch_event(&mut schemas);
    add_removed(&mut schemas);

    let mut texts = Texts::default();
    let (mut definitions, mut fields, mut count) = (String::new(), String::new(), 0);
    for (name, schema) in &schemas {
        let first = count;
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties: BTreeMap<&String, &Value> = properties.into_iter().flatten().collect();
        for (name, property) in properties {
            if let Some(text) = description(property) {
                writeln!(fields, "    Field {{ name: {}, text: {} }},", texts.add(name)?, texts.add(text)?)?;
                count += 1;
            }
        }
        let (name, text) = (texts.add(name)?, texts.add(description(schema).unwrap_or_default())?);
        writeln!(definitions, "    Definition {{ name: {name}, text: {text}, fields: ({first}, {count}) }},")?;
    }

    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(folder.join("texts.txt"), &texts.all)?;
    let tables = format!(
        "static DEFINITIONS: [Definition; {}] = [\n{definitions}];\nstatic FIELDS: [Field; {count}] = [\n{fields}];\n",
        schemas.len()
    );
    std::fs::write(folder.join("descriptions.rs"), tables)?;
    Ok(())
}

/// Splits off the description of the generic field `object`, which the dependency appends to that of the whole type.
fn part_watch_event(schemas: &mut BTreeMap<String, Value>) {
    let Some(event) = schemas.get_mut("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent") else { return };
    let Some((whole, object)) = description(event).and_then(|text| text.split_once("\n\n")) else { return };
    let (whole, object) = (whole.to_owned(), object.to_owned());
    event["description"] = whole.into();
    event["properties"]["object"] = serde_json::json!({ "description": object });
}

/// Adds the definitions of removed kinds, which are served only while an older release is emulated and which the
/// dependency lacks: they have the descriptions of the remaining version.
fn add_removed(schemas: &mut BTreeMap<String, Value>) {
    const LEFT: &str = "io.k8s.api.admissionregistration.v1.";
    const REMOVED: &str = "io.k8s.api.admissionregistration.v1beta1.";
    for name in [
        "AuditAnnotation",
        "ExpressionWarning",
        "TypeChecking",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicyBindingSpec",
        "ValidatingAdmissionPolicySpec",
        "ValidatingAdmissionPolicyStatus",
        "Validation",
    ] {
        if let Some(schema) = schemas.get(&format!("{LEFT}{name}")).cloned() {
            schemas.entry(format!("{REMOVED}{name}")).or_insert(schema);
        }
    }
}

fn description(schema: &Value) -> Option<&str> {
    schema.get("description")?.as_str()
}

/// All names and descriptions in one text, without duplicates.
#[derive(Default)]
struct Texts {
    all: String,
    spans: HashMap<String, String>,
}

impl Texts {
    /// Returns the position of a text, in the notation of the tables.
    fn add(&mut self, text: &str) -> Result<String, Box<dyn Error>> {
        if let Some(span) = self.spans.get(text) {
            return Ok(span.clone());
        }
        let start = u32::try_from(self.all.len())?;
        self.all.push_str(text);
        let span = format!("Span({start}, {})", u32::try_from(self.all.len())?);
        self.spans.insert(text.to_owned(), span.clone());
        Ok(span)
    }
}
