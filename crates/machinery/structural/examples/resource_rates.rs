//! The time of each step for a custom resource: `cargo run --release -p binnacle-structural --example resource_rates`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::FieldErrors;
use binnacle_schema::{Field, Message, MessageRef, Object, Ty, Value, value};
use binnacle_structural::resource::{CoercionOptions, Part, ResourceSchema};
use binnacle_structural::{Interner, Structural, footprint};

/// Returns a schema of 186 fields: six groups of thirty and two fields with rules.
fn schema() -> Value {
    let mut groups = Object::new();
    for group in 0..6_i64 {
        let mut fields = Object::new();
        for field in 0..30_i64 {
            let schema = match field % 6 {
                0 => value!({"type": "string", "maxLength": (group + 63)}),
                1 => value!({"type": "integer", "format": "int32", "minimum": field}),
                2 => value!({"type": "array", "maxItems": 64i64, "items": {"type": "string"}}),
                3 => value!({"type": "string", "enum": ["Always", "Never"], "default": "Never"}),
                4 => value!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}),
                _ => value!({"type": "boolean"}),
            };
            fields.insert(format!("someField{field}"), schema);
        }
        let mut schema = value!({"type": "object", "required": ["someField1"]});
        if group < 2 {
            let rules = value!([{"rule": "self.someField1 >= 0", "message": "not negative"}]);
            schema.make_object().insert("x-kubernetes-validations", rules);
        }
        schema.make_object().insert("properties", Value::Object(fields));
        groups.insert(format!("group{group}"), schema);
    }
    let mut root = value!({"type": "object", "properties": {"spec": {"type": "object"}}});
    root.make_at(&["properties", "spec"]).insert("properties", Value::Object(groups));
    root
}

/// Returns an object of about 1.8 KB.
fn object() -> Value {
    let mut spec = Object::new();
    for group in 0..4 {
        let mut fields = Object::new();
        for field in 0..18_i64 {
            let value = match field % 6 {
                0 | 4 => value!("some-text"),
                1 => Value::Int(field + 100),
                2 => value!(["a", "b"]),
                3 => value!("Always"),
                _ => value!(true),
            };
            fields.insert(format!("someField{field}"), value);
        }
        spec.insert(format!("group{group}"), Value::Object(fields));
    }
    let mut object = value!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    object.make_object().insert("spec", Value::Object(spec));
    object
}

fn rate(name: &str, mut work: impl FnMut()) {
    const TIMES: u32 = 2000;
    (0..TIMES / 10).for_each(|_| work());
    let start = Instant::now();
    (0..TIMES).for_each(|_| work());
    println!("{name}: {:.1} us", start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = schema();
    let names = [Field::new("name", Ty::String)];
    let meta = MessageRef::Shared(Arc::new(Message::new("ObjectMeta", names.to_vec())));
    rate("read a schema of 186 fields", || drop(black_box(Structural::parse(&text, &Interner::new()))));
    let interner = Interner::new();
    let schema = Structural::parse(&text, &interner)?;
    println!("memory of the schema: {} bytes, {} nodes", footprint([&schema]), interner.len());
    rate("read it again", || drop(black_box(Structural::parse(&text, &interner))));
    let resource = || ResourceSchema::new(Some(schema.clone()), meta.clone());
    rate("compile its two rules", || {
        black_box(resource().rules());
    });
    rate("make its message", || drop(black_box(resource().message().clone())));
    let resource = resource();
    let object = object();
    println!("object: {} bytes", binnacle_schema::json::to_string(&object).len());
    rate("copy the object", || drop(black_box(object.clone())));
    rate("copy, prune, set defaults", || {
        let mut object = object.clone();
        drop(black_box(resource.read(&mut object, CoercionOptions::default())));
        resource.set_defaults(&mut object);
    });
    let judge = |old: Option<&Value>| resource.validate(&object, old, Part::Whole, FieldErrors::new());
    assert!(judge(None).errors.is_empty());
    rate("judge a new object", || drop(black_box(judge(None))));
    rate("judge an update", || drop(black_box(judge(Some(&object)))));
    Ok(())
}
