//! Validates objects of built-in kinds. Reads one JSON document per line, `{"new": ..., "old": ...}` with optional
//! `old`, and prints one line for each: the errors and the warnings of the kind. Metadata is not validated.

use std::io::{BufRead, Write};

use binnacle_features::Features;
use binnacle_kinds::{strategy, tables};
use binnacle_meta::GroupVersion;
use binnacle_schema::{Limits, Object, Value, decode, json};
use binnacle_scheme::StrategyContext;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let response = json::parse(line?.as_bytes(), &Limits::default()).map_err(|error| error.to_string());
        let response = response.and_then(|request| validate(&request));
        let response =
            response.unwrap_or_else(|error| Value::Object([("failure", error)].into_iter().collect::<Object>()));
        writeln!(out, "{}", json::to_string(&response))?;
    }
    Ok(())
}

fn validate(request: &Value) -> Result<Value, String> {
    let new = request.get("new").ok_or("no object")?;
    let api_version = new.str_at(&["apiVersion"]).to_owned();
    let version = GroupVersion::parse(&api_version).ok_or("no apiVersion")?;
    let kind = new.str_at(&["kind"]).to_owned();
    let message = tables::kind(&version.group, &version.version, &kind).ok_or("an unknown kind")?;
    let strategy = strategy(&version.group, &kind);
    let features = Features::default();
    let ctx = StrategyContext {
        features: &features,
        now: 1_767_225_600,
        namespace: "",
        api_version: &api_version,
        dry_run: true,
    };
    let read = |object: &Value| {
        let mut object = decode::value(object.clone(), message).map_err(|error| error.to_string())?.value;
        strategy.set_defaults(&version.version, &mut object);
        Ok::<_, String>(object)
    };
    let mut new = read(new)?;
    let old = request.get("old").map(read).transpose()?;
    let errors = match &old {
        None => {
            strategy.prepare_for_create(&ctx, &mut new);
            strategy.validate(&ctx, &new)
        }
        Some(old) => {
            strategy.prepare_for_update(&ctx, &mut new, old);
            strategy.validate_update(&ctx, &new, old)
        }
    };
    let errors = errors.iter().map(|error| {
        let parts = [("field", error.field.to_string()), ("message", error.body().to_owned())];
        Value::Object(parts.into_iter().chain([("reason", error.kind.reason().to_owned())]).collect())
    });
    let mut response = Object::new();
    response.insert("errors", Value::List(errors.collect()));
    response.insert("warnings", strategy.warnings(&new, old.as_ref()));
    Ok(Value::Object(response))
}
