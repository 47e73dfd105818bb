use binnacle_schema::value;

use super::*;

#[test]
fn validates_conversion_responses() {
    let v1 = |response: Value| value!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
    let old = |response: Value| value!({"response": response});
    let done = value!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [{"kind": "A"}]});
    let other = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got";
    let cases: Vec<(&str, Value, Result<usize, String>)> = vec![
        ("v1", v1(done.clone()), Ok(1)),
        ("v1", old(done.clone()), Err(format!("{other} /, Kind="))),
        ("v1beta1", old(done), Ok(1)),
        ("v1", v1(Value::Null), Err("no response provided".into())),
        ("v1", v1(value!({"uid": "x"})), Err("expected response.uid=\"u\", got \"x\"".into())),
        ("v1", v1(value!({"uid": "u"})), Err("response.result.status was '', not 'Success'".into())),
        ("v1beta1", old(value!({"result": {"status": "Failure", "message": "no"}})), Err("no".into())),
        ("v1", v1(value!({"uid": "u", "result": {"status": "Success"}})), Ok(0)),
    ];
    for (version, review, want) in cases {
        let received = converted_objects(review.clone(), version, "u").map(|objects| objects.len());
        assert_eq!(received, want, "{}", json::to_string(&review));
    }
}

#[test]
fn restores_metadata_except_labels_and_annotations() {
    let original = value!({"metadata": {"name": "a", "labels": {"x": "1"}, "annotations": {"y": "2"}}});
    let cases = [
        (value!({"metadata": {"name": "b", "labels": {"z": "3"}}}), Ok(r#"{"name":"a","labels":{"z":"3"}}"#)),
        (value!({"metadata": {}}), Ok(r#"{"name":"a"}"#)),
        (value!({"spec": {}}), Err("missing metadata in converted object")),
        (value!({"metadata": 1}), Err("invalid metadata of type int64 in converted object")),
        (
            value!({"metadata": {"labels": []}}),
            Err("invalid metadata.labels of type []interface {} in converted object"),
        ),
        (
            value!({"metadata": {"annotations": {"k": true}}}),
            Err("metadata.annotations[k] must be a string, but is bool in converted object"),
        ),
    ];
    for (mut converted, want) in cases {
        let received = restore_metadata(&original, &mut converted);
        let received = received.map(|()| converted.get("metadata").map(json::to_string).unwrap_or_default());
        assert_eq!(received, want.map(str::to_owned).map_err(str::to_owned));
    }
    let mut converted = value!({"metadata": {"labels": {"a b": "c"}}});
    let refused = restore_metadata(&original, &mut converted).expect_err("a bad key");
    assert!(refused.starts_with("metadata.labels: Invalid value: \"a b\": "), "{refused}");
}

#[test]
fn rejects_objects_with_changed_identity() {
    let original = value!({"apiVersion": "g/v1", "kind": "A", "metadata": {"name": "a", "uid": "u"}});
    let cases = [
        (value!({"apiVersion": "g/v2", "kind": "A", "metadata": {"name": "a", "uid": "u"}}), Ok(())),
        (
            value!({"apiVersion": "g/v1"}),
            Err("returned invalid object at index 0: invalid groupVersion (expected g/v2, received g/v1)"),
        ),
        (
            value!({"apiVersion": "g/v2", "kind": "B"}),
            Err("returned invalid object at index 0: invalid kind (expected A, received B)"),
        ),
        (
            value!({"apiVersion": "g/v2", "kind": "A", "metadata": {"name": "b"}}),
            Err("returned invalid object: must have the same name: a != b"),
        ),
        (
            value!({"apiVersion": "g/v2", "kind": "A", "metadata": {"name": "a"}}),
            Err("returned invalid object: must have the same UID: u != "),
        ),
    ];
    for (converted, want) in cases {
        assert_eq!(check(&original, &converted, "g/v2", 0), want.map_err(str::to_owned));
    }
}

#[test]
fn builds_service_urls() {
    let cases = [
        (value!({"namespace": "n", "name": "s"}), "https://s.n.svc:443/"),
        (value!({"namespace": "n", "name": "s", "port": 8443, "path": "/convert"}), "https://s.n.svc:8443/convert"),
    ];
    for (service, want) in cases {
        assert_eq!(service_url(FieldRef::root(&service)), want);
    }
}
