//! The filled objects of kube-apiserver's round-trip tests, one per kind, in protobuf and JSON: every decoder and
//! encoder must agree with them byte for byte.

use std::collections::BTreeSet;

use binnacle_kinds::tables;
use binnacle_schema::{Limits, Message, Ty, Value, canonical, decode, json, proto};
use binnacle_test_requirements::shared;

/// Compares one fixture; the error is the difference.
fn check(name: &str, pb: &[u8], fixture: &[u8]) -> Result<(), String> {
    let envelope = proto::unwrap(pb).map_err(|e| e.to_string())?;
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    // A watch event is not an object, and its envelope does not name its type.
    let message = match (&*envelope.kind, name.rsplit('.').next()) {
        ("", Some("WatchEvent")) => tables::message("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"),
        (kind, _) => tables::kind(group, version, kind),
    }
    .ok_or("no table has the kind")?;
    let tree = proto::decode_object(envelope.raw, message, &envelope.api_version, &envelope.kind, proto::DEPTH)
        .map_err(|e| format!("decode: {e}"))?;

    let mut encoded = Vec::new();
    proto::encode(&tree, message, &mut encoded);
    if encoded != envelope.raw {
        let at = encoded.iter().zip(envelope.raw).take_while(|(a, b)| a == b).count();
        let near = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[at.saturating_sub(30)..(at + 30).min(bytes.len())]).into_owned()
        };
        return Err(format!("encode differs at {at}: {:?}, want {:?}", near(&encoded), near(envelope.raw)));
    }
    let wrapped = proto::wrap(&envelope.api_version, &envelope.kind, |out| out.extend_from_slice(&encoded));
    if wrapped != pb {
        return Err("the envelope differs".to_owned());
    }

    // Raw extensions keep the white space of the text.
    let compact = json::compact(fixture, &Limits::default()).map_err(|e| e.to_string())?;
    let mut from_json =
        decode::json(compact.as_bytes(), message, &Limits::default()).map_err(|e| format!("JSON: {e}"))?.value;
    // Kinds within objects have a type when they are read from protobuf, but the fixtures were never stored.
    let before = json::to_string(&from_json);
    name_kinds(&mut from_json, message);
    let compact = if before == compact { json::to_string(&from_json) } else { compact };
    if from_json != tree {
        return Err(format!("the trees differ: {}\nJSON has {}", json::to_string(&tree), json::to_string(&from_json)));
    }
    let mut from_tree = Vec::new();
    proto::encode(&from_json, message, &mut from_tree);
    if from_tree != envelope.raw {
        return Err("the tree of the JSON encodes differently".to_owned());
    }

    let mut streamed = Vec::new();
    let overrides = proto::Overrides::default();
    proto::to_json(envelope.raw, message, &envelope.api_version, &envelope.kind, overrides, &mut streamed)
        .map_err(|e| format!("to_json: {e}"))?;
    if streamed != json::to_string(&tree).as_bytes() {
        return Err(format!("streams {}\nwant {}", String::from_utf8_lossy(&streamed), json::to_string(&tree)));
    }
    if streamed != compact.as_bytes() {
        return Err(format!("streams {}\nfixture {compact}", String::from_utf8_lossy(&streamed)));
    }
    Ok(())
}

/// Sets the constants of kinds within an object.
fn name_kinds(value: &mut Value, message: &Message) {
    let Some(object) = value.as_object_mut() else { return };
    for field in message.fields.iter() {
        if !field.constant.is_empty() {
            canonical::set(object, message, &field.name, field.constant);
            continue;
        }
        let element = field.ty.element().and_then(Ty::message).or_else(|| field.ty.message());
        match (object.get_mut(&field.name), element) {
            (Some(Value::List(items)), Some(element)) => items.iter_mut().for_each(|item| name_kinds(item, element)),
            (Some(member), Some(element)) => name_kinds(member, element),
            _ => {}
        }
    }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn fixtures_agree_in_protobuf_json_and_tree() {
    let folder = shared("reference/roundtrip");
    let mut kinds = BTreeSet::new();
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder is there").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let pb = std::fs::read(&path).expect("the folder lists it");
        let fixture = std::fs::read(path.with_extension("json")).expect("every fixture has a JSON form");
        match check(&name, &pb, &fixture) {
            Ok(()) => drop(kinds.insert(name)),
            Err(problem) => problems.push(format!("{name}: {problem}")),
        }
    }
    println!("{} kinds agree in protobuf, JSON and tree", kinds.len());
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), problems.len() + kinds.len(), problems.join("\n"));
    assert!(!kinds.is_empty(), "no fixtures in {}", folder.display());
}
