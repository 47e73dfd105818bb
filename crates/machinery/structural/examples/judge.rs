//! Validates objects against schemas. Reads one JSON document per line, `{"schema": ..., "new": ..., "old": ...,
//! "status": true}` (`old` and `status` are optional), and writes one line for each: the stored object, the unknown
//! fields, the errors and the warnings. Does not validate the metadata of the object.

use std::io::{BufRead, Write};
use std::sync::Arc;

use binnacle_meta::FieldErrors;
use binnacle_schema::{Field, Limits, Message, MessageRef, Object, Ty, Value, json};
use binnacle_structural::resource::{CoercionOptions, Part, ResourceSchema};
use binnacle_structural::{Interner, Structural};

fn main() -> std::io::Result<()> {
    let interner = Interner::new();
    let names = ["name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let mut fields: Vec<Field> = names.into_iter().map(|name| Field::new(name, Ty::String)).collect();
    fields.push(Field::new("generation", Ty::Int64));
    fields.extend(["labels", "annotations"].map(|name| Field::new(name, Ty::Map(Box::new(Ty::String)))));
    fields.push(Field::new("finalizers", Ty::List(Box::new(Ty::String))));
    let meta = MessageRef::Shared(Arc::new(Message::new("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", fields)));
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = match json::parse(line?.as_bytes(), &Limits::default()) {
            Ok(question) => answer(&question, &interner, &meta),
            Err(error) => failure(&error),
        };
        writeln!(out, "{}", json::to_string(&answer))?;
    }
    Ok(())
}

fn answer(question: &Value, interner: &Interner, meta: &MessageRef) -> Value {
    let null = Value::Null;
    let schema = match Structural::parse(question.get("schema").unwrap_or(&null), interner) {
        Ok(schema) => schema,
        Err(error) => return failure(&error),
    };
    let resource = ResourceSchema::new(Some(schema), meta.clone());
    let mut new = question.get("new").cloned().unwrap_or_default();
    let unknown = match resource.read(&mut new, CoercionOptions { report_unknown: true, ..CoercionOptions::default() })
    {
        Ok(unknown) => unknown,
        Err(error) => return failure(&error),
    };
    resource.set_defaults(&mut new);
    let mut old = question.get("old").cloned();
    if let Some(old) = &mut old {
        if let Err(error) = resource.read(old, CoercionOptions { from_store: true, ..CoercionOptions::default() }) {
            return failure(&error);
        }
        resource.set_defaults(old);
    }
    let part = if question.bool_at(&["status"]) { Part::Status } else { Part::Whole };
    let judgement = resource.validate(&new, old.as_ref(), part, FieldErrors::new());
    binnacle_schema::sort_free_form(&mut new);
    let errors = judgement.errors.iter().map(|error| {
        let parts = [("field", error.field.to_string()), ("message", error.body().to_owned())];
        let mut error: Object = parts.into_iter().chain([("reason", error.kind.reason().to_owned())]).collect();
        error.sort_by_name();
        Value::Object(error)
    });
    let mut answer = Object::new();
    answer.insert("errors", Value::List(errors.collect()));
    answer.insert("unknown", unknown);
    answer.insert("warnings", judgement.warnings);
    answer.insert("object", new);
    Value::Object(answer)
}

fn failure(error: &impl ToString) -> Value {
    let answer: Object = [("failure", error.to_string())].into_iter().collect();
    Value::Object(answer)
}
