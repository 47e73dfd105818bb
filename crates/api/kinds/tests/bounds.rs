//! Limits on the memory of a document: large bodies of hostile clients are rejected, and objects of real clusters are
//! far below the limit.

use std::fmt::Write as _;

use binnacle_kinds::tables;
use binnacle_schema::proto::ProtoError;
use binnacle_schema::{DecodeError, JsonError, Limits, Message, canonical, decode, json, proto};

fn message(group: &str, version: &str, kind: &str) -> &'static Message {
    tables::kind(group, version, kind).expect("a kind of the tables")
}

fn repeated(before: &str, item: &str, count: usize, after: &str) -> String {
    let mut text = String::from(before);
    for i in 0..count {
        if i > 0 {
            text.push(',');
        }
        text.push_str(item);
    }
    text + after
}

#[test]
fn rejects_bodies_with_too_many_elements() {
    let policy = message("networking.k8s.io", "v1", "NetworkPolicy");
    let review = message("authorization.k8s.io", "v1", "SelfSubjectAccessReview");
    let pod = message("", "v1", "Pod");
    let map = message("", "v1", "ConfigMap");
    let revision = message("apps", "v1", "ControllerRevision");
    for (message, text) in [
        (policy, repeated(r#"{"spec":{"podSelector":{"matchExpressions":["#, "{}", 800_000, "]}}}")),
        (
            review,
            repeated(r#"{"spec":{"resourceAttributes":{"labelSelector":{"requirements":["#, "{}", 900_000, "]}}}}"),
        ),
        (
            review,
            repeated(r#"{"spec":{"resourceAttributes":{"fieldSelector":{"requirements":["#, "{}", 200_000, "]}}}}"),
        ),
        (pod, repeated(r#"{"spec":{"containers":["#, "{}", 900_000, "]}}")),
        (pod, repeated(r#"{"spec":{"containers":["#, "null", 600_000, "]}}")),
        (revision, repeated(r#"{"data":["#, "{}", 900_000, "]}")),
    ] {
        assert!(text.len() < Limits::MAX_BODY, "{}", text.len());
        let error = decode::json(text.as_bytes(), message, &Limits::default()).err();
        assert!(error.is_some_and(|error| error.too_many_elements().is_some()), "{}", message.name);
    }
    // YAML also counts nodes.
    for (item, many) in [("{}", "too many elements: "), ("null", "exceeded max of 500000 nodes")] {
        let text = repeated("{'spec': {'containers': [", item, if item == "{}" { 130_000 } else { 500_000 }, "]}}");
        let error = decode::yaml(text.as_bytes(), pod, &Limits::default()).err();
        assert!(error.is_some_and(|error| error.to_string().contains(many)), "{item}");
    }

    // Without a schema, as for patches.
    for text in [repeated(r#"{"spec":["#, "{}", 1_000_000, "]}"), repeated("[", r#"{"":0}"#, 400_000, "]")] {
        assert!(text.len() < Limits::MAX_BODY, "{}", text.len());
        assert!(matches!(json::parse(text.as_bytes(), &Limits::default()), Err(JsonError::TooManyElements(_))));
        let tree = json::parse(text.as_bytes(), &Limits { max_memory: usize::MAX, ..Limits::default() });
        drop(tree.expect("JSON"));
    }
    let tree = json::parse(
        repeated(r#"{"spec":{"containers":["#, "{}", 200_000, "]}}").as_bytes(),
        &Limits { max_memory: usize::MAX, ..Limits::default() },
    );
    assert!(matches!(decode::value(tree.expect("JSON"), pod), Err(DecodeError::TooManyElements(_))));

    // In protobuf, an empty container takes two bytes, and so does an empty map entry.
    for (message, list) in [(pod, vec![0x12, 0x80, 0xff, 0xb0, 0x01]), (map, Vec::new())] {
        let item = [0x12, 0x00];
        let mut bytes = list;
        (0..1_450_000).for_each(|_| bytes.extend_from_slice(&item));
        if message.name == pod.name {
            let length = bytes.len() - 5;
            bytes[1..5].copy_from_slice(&[
                (length & 0x7f) as u8 | 0x80,
                (length >> 7 & 0x7f) as u8 | 0x80,
                (length >> 14 & 0x7f) as u8 | 0x80,
                (length >> 21) as u8,
            ]);
            let decoded = proto::decode_within(&bytes, message, &Limits::default());
            assert!(matches!(decoded, Err(ProtoError::TooManyElements(_))));
        } else {
            // All entries have the same key, so one remains.
            proto::decode_within(&bytes, message, &Limits::default()).expect("one entry");
        }
    }
}

#[test]
fn accepts_large_objects_of_real_clusters() {
    let mut map = String::from(r#"{"data":{"#);
    for i in 0..100_000 {
        let _ = write!(map, "{}\"{i:06}\":\"\"", if i > 0 { "," } else { "" });
    }
    map.push_str("}}");

    let mut slice =
        String::from(r#"{"addressType":"IPv4","ports":[{"name":"http","port":80,"protocol":"TCP"}],"endpoints":["#);
    for i in 0..1000 {
        let _ = write!(
            slice,
            r#"{}{{"addresses":["10.0.{}.{}"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"nodeName":"node-{i}","targetRef":{{"kind":"Pod","name":"web-{i}","namespace":"default","uid":"{i}"}},"zone":"a","hints":{{"forZones":[{{"name":"a"}}]}}}}"#,
            if i > 0 { "," } else { "" },
            i / 250,
            i % 250,
        );
    }
    slice.push_str("]}");

    // A definition of 1.5 MB that is nearly all structure.
    let mut definition = String::from(
        r#"{"spec":{"group":"a.io","names":{"kind":"A","plural":"as"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"#,
    );
    for i in 0..32_000 {
        let _ = write!(
            definition,
            r#"{}"p{i}":{{"type":"string","maxLength":99,"nullable":true}}"#,
            if i > 0 { "," } else { "" }
        );
    }
    definition.push_str("}}}}]}}");

    // Objects with many numbers, such as a controller's data: as many as can be stored.
    let numbers = repeated(r#"{"data":{"numbers":["#, "0", 780_000, "]}}");

    for (message, text) in [
        (message("", "v1", "ConfigMap"), map),
        (message("discovery.k8s.io", "v1", "EndpointSlice"), slice),
        (message("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), definition),
        (message("apps", "v1", "ControllerRevision"), numbers),
    ] {
        assert!(text.len() < Limits::MAX_BODY, "{}", text.len());
        let mut object = decode::json(text.as_bytes(), message, &Limits::default()).expect("an ordinary object").value;
        if text.len() < 500_000 {
            decode::yaml(text.as_bytes(), message, &Limits::default()).expect("an ordinary object");
            let tree = json::parse(text.as_bytes(), &Limits::default()).expect("an ordinary object");
            decode::value(tree, message).expect("an ordinary object");
        }
        canonical::canonicalize(&mut object, message);
        let mut bytes = Vec::new();
        proto::encode(&object, message, &mut bytes);
        proto::decode_within(&bytes, message, &Limits::default()).expect("an ordinary object");
    }
}
