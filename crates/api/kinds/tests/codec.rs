//! Every fixture of kube-apiserver's round-trip data is decoded with its table and encoded again.

use binnacle_kinds::tables;
use binnacle_schema::{DecodedObject, Limits, Message, Value, canonical, decode, json, yaml};
use binnacle_test_requirements::shared;

/// Returns the fixtures: name, JSON, YAML and table of each.
fn fixtures() -> Vec<(String, String, String, &'static Message)> {
    let entries = std::fs::read_dir(shared("reference/roundtrip")).expect("the directory can be read");
    let mut fixtures = Vec::new();
    for entry in entries {
        let path = entry.expect("the directory can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are ASCII").to_owned();
        let Some(stem) = name.strip_suffix(".json") else { continue };
        let json = std::fs::read_to_string(&path).expect("the fixture can be read");
        let yaml = std::fs::read_to_string(path.with_extension("yaml")).expect("each fixture has a YAML form");
        let meta = json::type_meta(json.as_bytes(), &Limits::default()).expect("fixtures are well formed");
        let (group, version) = meta.api_version.split_once('/').unwrap_or(("", &meta.api_version));
        let Some(message) = tables::kind(group, version, &meta.kind) else {
            println!("no table for {stem}");
            continue;
        };
        fixtures.push((stem.to_owned(), json, yaml, message));
    }
    assert!(fixtures.len() > 100, "only {} fixtures have a table", fixtures.len());
    fixtures
}

fn compact(text: &str) -> String {
    json::compact(text.as_bytes(), &Limits::default()).expect("fixtures are well formed")
}

fn same(name: &str, got: &str, want: &str) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    let at = got.bytes().zip(want.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| text.get(at.saturating_sub(60)..(at + 60).min(text.len())).unwrap_or("").to_owned();
    Err(format!("{name}\n   got ...{}\n  want ...{}", around(got), around(want)))
}

fn check(step: impl Fn(&str, &str, &str, &'static Message) -> Result<(), String>) {
    let fixtures = fixtures();
    let failures: Vec<String> =
        fixtures.iter().filter_map(|(name, json, yaml, message)| step(name, json, yaml, message).err()).collect();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), fixtures.len(), failures.join("\n"));
}

fn decoded(name: &str, result: Result<DecodedObject, decode::DecodeError>) -> Result<Value, String> {
    let DecodedObject { value, findings, .. } = result.map_err(|error| format!("{name}: {error}"))?;
    match findings.strict_error() {
        Some(findings) => Err(format!("{name}: {findings}")),
        None => Ok(value),
    }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn json_round_trips_byte_for_byte() {
    check(|name, text, _, message| {
        let value = decoded(name, decode::json(text.as_bytes(), message, &Limits::default()))?;
        same(name, &json::to_string(&value), &compact(text))
    });
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn yaml_decodes_to_equal_json() {
    check(|name, text, yaml, message| {
        let value = decoded(name, decode::yaml(yaml.as_bytes(), message, &Limits::default()))?;
        same(name, &json::to_string(&value), &compact(text))
    });
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn encodes_yaml_byte_for_byte() {
    check(|name, text, yaml, message| {
        let value = decoded(name, decode::json(text.as_bytes(), message, &Limits::default()))?;
        same(name, &yaml::to_string(&value), yaml)
    });
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn decoded_objects_are_canonical() {
    check(|name, text, _, message| {
        let value = decoded(name, decode::json(text.as_bytes(), message, &Limits::default()))?;
        let mut again = value.clone();
        canonical::canonicalize(&mut again, message);
        same(name, &json::to_string(&again), &json::to_string(&value))?;
        // Members may be in any order.
        let mut shuffled = json::parse(text.as_bytes(), &Limits::default()).map_err(|e| e.to_string())?;
        binnacle_schema::sort_free_form(&mut shuffled);
        let tree = decoded(name, decode::value(shuffled.clone(), message))?;
        same(name, &json::to_string(&tree), &json::to_string(&value))?;
        canonical::canonicalize(&mut shuffled, message);
        let shuffled = decoded(name, decode::value(shuffled, message))?;
        same(name, &json::to_string(&shuffled), &json::to_string(&value))
    });
}
