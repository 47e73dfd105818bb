//! The errors of Go's decoder for malformed documents, against the tables of the built-in kinds.

use binnacle_kinds::tables;
use binnacle_schema::{Limits, Message, Value, decode, json, proto, yaml};

fn table(kind: &str) -> &'static Message {
    let (group, version) = match kind {
        "Deployment" => ("apps", "v1"),
        "Lease" => ("coordination.k8s.io", "v1"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1"),
        "ControllerRevision" => ("apps", "v1"),
        _ => ("", "v1"),
    };
    tables::kind(group, version, kind).unwrap_or_else(|| panic!("no table of {kind}"))
}

/// Returns the decoded document as JSON, or the error.
fn outcome(kind: &str, text: &str) -> Result<String, String> {
    decode::json(text.as_bytes(), table(kind), &Limits::default())
        .map(|decoded| json::to_string(&decoded.value))
        .map_err(|error| error.to_string())
}

/// Decodes each document as its kind, and compares the errors.
fn check_errors(cases: &[(&str, &str, &str)]) {
    for &(kind, text, want) in cases {
        assert_eq!(outcome(kind, text), Err(want.to_owned()), "{text}");
    }
}

#[test]
fn reports_scalars_of_wrong_types_like_go() {
    check_errors(&[
        (
            "Deployment",
            r#"{"spec":{"replicas":1.0}}"#,
            "json: cannot unmarshal number 1.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Pod",
            r#"{"spec":{"hostNetwork":"x"}}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            "ConfigMap",
            r#"{"metadata":{"name":true}}"#,
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            "Pod",
            r#"{"spec":{"terminationGracePeriodSeconds":"x"}}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}"#,
            "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":1}}}}]}}"#,
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type of type string",
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"items":{"x-kubernetes-validations":[{"rule":[]}]}}}}}}]}}"#,
            "json: cannot unmarshal array into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.items.x-kubernetes-validations.rule of type string",
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"x-kubernetes-validations":[{"rule":[]}]}}}}}]}}"#,
            "json: cannot unmarshal array into Go struct field ValidationRule.spec.versions.schema.openAPIV3Schema.properties.x-kubernetes-validations.rule of type string",
        ),
    ]);
}

#[test]
fn quotes_large_integers_of_yaml_with_all_digits() {
    let message = table("Service");
    let yaml = |text: &str| decode::yaml(text.as_bytes(), message, &Limits::default());
    for number in ["9223372036854775808", "18446744073709551615"] {
        let error = yaml(&format!("spec: {{ports: [{{port: {number}}}]}}")).unwrap_err().to_string();
        let want = format!(
            "json: cannot unmarshal number {number} into Go struct field ServicePort.spec.ports.port of type int32"
        );
        assert_eq!(error, want);
    }
}

#[test]
fn reports_elements_of_wrong_types_like_go() {
    check_errors(&[
        (
            "ConfigMap",
            r#"{"data":{"a":true}}"#,
            "json: cannot unmarshal bool into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":["x"]}}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":1}]}}"#,
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"args":[1]}]}}"#,
            "json: cannot unmarshal number into Go struct field Container.spec.containers.args of type string",
        ),
        (
            "Secret",
            r#"{"data":{"k":[256]}}"#,
            "json: cannot unmarshal number 256 into Go struct field Secret.data of type uint8",
        ),
    ]);
}

#[test]
fn reports_maps_lists_and_structs_of_wrong_types_like_go() {
    check_errors(&[
        (
            "ConfigMap",
            r#"{"metadata":{"labels":"x"}}"#,
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":{}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            r#"{"spec":{"volumes":[{"hostPath":"/"}]}}"#,
            "json: cannot unmarshal string into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        ("Pod", r#"{"spec":"x"}"#, "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
        ("Pod", r#"[]"#, "json: cannot unmarshal array into Go value of type v1.Pod"),
        (
            "Secret",
            r#"{"data":[]}"#,
            "json: cannot unmarshal array into Go struct field Secret.data of type map[string][]uint8",
        ),
    ]);
}

#[test]
fn reports_values_that_cannot_be_parsed_like_go() {
    check_errors(&[
        (
            "Lease",
            r#"{"spec":{"renewTime":"yesterday"}}"#,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "yesterday" as "2006""#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1x"}}}]}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("Secret", r#"{"data":{"k":"!"}}"#, "illegal base64 data at input byte 0"),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":1}}}]}}"#,
            "boolean or JSON schema expected",
        ),
    ]);
}

#[test]
fn reports_first_wrong_type_unless_a_value_cannot_be_parsed() {
    check_errors(&[
        // The first wrong type is reported. A value that cannot be parsed takes precedence over it, malformed JSON over
        // both.
        (
            "Pod",
            r#"{"spec":{"hostNetwork":1,"hostPID":2}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            "Pod",
            r#"{"spec":{"hostNetwork":1},"metadata":{"creationTimestamp":"x"}}"#,
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
        ("Pod", r#"{"spec":{"hostNetwork":1},}"#, "invalid character '}' looking for beginning of object key string"),
        ("Pod", r#"{"spec":{"#, "unexpected end of JSON input"),
    ]);
}

#[test]
fn reports_unknown_and_duplicate_fields() {
    for (kind, text, want) in [
        ("ConfigMap", r#"{"metadata":{"name":"a","nothing":1},"other":{"x":[}]}"#, None),
        (
            "ConfigMap",
            r#"{"metadata":{"name":"a","nothing":1},"other":{"x":[]}}"#,
            Some(r#"unknown field "metadata.nothing", unknown field "other""#),
        ),
        (
            "ConfigMap",
            r#"{"data":{"k":"1","k":"2"},"data":{"l":"3"}}"#,
            Some(r#"duplicate field "data.k", duplicate field "data""#),
        ),
        ("ConfigMap", r#"{"Data":{}}"#, Some(r#"unknown field "Data""#)),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a","x":1},{"y":1,"y":2}]}}"#,
            Some(r#"unknown field "spec.containers[0].x", unknown field "spec.containers[1].y""#),
        ),
        // Fields of types with their own unmarshaler are not checked.
        ("ControllerRevision", r#"{"data":{"a":1,"a":2}}"#, Some("")),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"nope":1,"items":{"nope":1}}}}]}}"#,
            Some(r#"unknown field "spec.versions[0].schema.openAPIV3Schema.nope""#),
        ),
    ] {
        let decoded = decode::json(text.as_bytes(), table(kind), &Limits::default());
        let got = decoded.ok().map(|decoded| decoded.findings.strict_error().unwrap_or_default());
        let want =
            want.map(|want| if want.is_empty() { String::new() } else { format!("strict decoding error: {want}") });
        assert_eq!(got, want, "{text}");
    }
}

#[test]
fn decodes_values_like_go() {
    for (kind, text, want) in [
        ("ConfigMap", r#"{}"#, r#"{"metadata":{}}"#),
        ("ConfigMap", r#"null"#, r#"{"metadata":{}}"#),
        (
            "ConfigMap",
            r#"{"data":{"b":"2","a":null,"b":"3"},"kind":"ConfigMap","metadata":null,"apiVersion":"v1"}"#,
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{},"data":{"a":"","b":"3"}}"#,
        ),
        // A repeated struct or map is merged into the first one, a repeated scalar replaces it, null unsets pointers.
        (
            "ConfigMap",
            r#"{"data":{"a":"1","b":"2"},"data":{"b":"3"},"immutable":true,"immutable":null}"#,
            r#"{"metadata":{},"data":{"a":"1","b":"3"}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"hostNetwork":true,"nodeName":"x"},"spec":{"hostNetwork":false,"containers":[null]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"","resources":{}}],"nodeName":"x"},"status":{}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b"}],"containers":[{"name":"c"}]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"c","image":"i","resources":{}}]},"status":{}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":null,"activeDeadlineSeconds":0,"terminationGracePeriodSeconds":0}}"#,
            r#"{"metadata":{},"spec":{"containers":null,"terminationGracePeriodSeconds":0,"activeDeadlineSeconds":0},"status":{}}"#,
        ),
        ("Pod", r#"{"spec":{"containers":[]}}"#, r#"{"metadata":{},"spec":{"containers":[]},"status":{}}"#),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":"2024-01-01T01:00:00.5+01:00","labels":{}},"spec":{"containers":[{"resources":{"limits":{"memory":" 1024Mi ","cpu":0.5}},"ports":[{"containerPort":80}]}]}}"#,
            r#"{"metadata":{"creationTimestamp":"2024-01-01T00:00:00Z"},"spec":{"containers":[{"name":"","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"500m","memory":"1Gi"}}}]},"status":{}}"#,
        ),
        (
            "Secret",
            r#"{"data":{"a":"aGk=","b":null,"c":[104,105],"d":"aG\nk="}}"#,
            r#"{"metadata":{},"data":{"a":"aGk=","b":null,"c":"aGk=","d":"aGk="}}"#,
        ),
        (
            "Service",
            r#"{"spec":{"ports":[{"port":1,"targetPort":"http"},{"port":2,"targetPort":3},{"port":4}]}}"#,
            r#"{"metadata":{},"spec":{"ports":[{"port":1,"targetPort":"http"},{"port":2,"targetPort":3},{"port":4,"targetPort":0}]},"status":{"loadBalancer":{}}}"#,
        ),
        (
            "ControllerRevision",
            r#"{"data":{"b":1,"a":[1.5,null,{}]},"revision":0,"metadata":{"managedFields":[{"fieldsV1":{"f:b":{}, "f:a" : {"." : {} } }}]}}"#,
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:b":{},"f:a":{".":{}}}}]},"data":{"b":1,"a":[1.5,null,{}]},"revision":0}"#,
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"group":"g","names":{"plural":"p","kind":"k"},"scope":"s","versions":[{"name":"v","schema":{"openAPIV3Schema":{"additionalProperties":true,"items":[{"type":"a"}],"dependencies":{"x":["y"]},"default":null,"enum":[1,null],"properties":{"z":{},"a":{"additionalProperties":{"type":"t"}}}}}}]}}"#,
            r#"{"metadata":{},"spec":{"group":"g","names":{"plural":"p","kind":"k"},"scope":"s","versions":[{"name":"v","served":false,"storage":false,"schema":{"openAPIV3Schema":{"enum":[1,null],"items":[{"type":"a"}],"properties":{"a":{"additionalProperties":{"type":"t"}},"z":{}},"additionalProperties":true,"dependencies":{"x":["y"]}}}}]},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}"#,
        ),
    ] {
        assert_eq!(outcome(kind, text).as_deref(), Ok(want), "{text}");
        // The same document as a tree, unless a tree cannot represent it.
        if !text.contains("\"data\":{\"a\":\"1\"") && !text.contains("},\"spec\"") && !text.contains("],\"containers\"")
        {
            let tree = json::parse(text.as_bytes(), &Limits::default()).expect("the document was read before");
            let decoded = decode::value(tree, table(kind)).expect("and decoded");
            assert_eq!(json::to_string(&decoded.value), want, "{text} as a tree");
        }
    }
}

/// The bytes of a `RawExtension` count where kube-apiserver compares them, and are never visible.
#[test]
fn raw_extensions_keep_their_bytes() {
    let message = table("ControllerRevision");
    for (sent, shown) in [
        (r#"{"b":1,"a":[1.5,null,{}]}"#, r#"{"b":1,"a":[1.5,null,{}]}"#),
        (r#"{ "a": [1, 2] }"#, r#"{"a":[1,2]}"#),
        ("{\"a\" :\n\t\"x y\"\r\n}", r#"{"a":"x y"}"#),
        (r#"{"a":"<","b":"\u003e"}"#, r#"{"a":"\u003c","b":"\u003e"}"#),
        (
            r#"{"a":1.0,"b":1e2,"c":123456789012345678901234567890}"#,
            r#"{"a":1.0,"b":1e2,"c":123456789012345678901234567890}"#,
        ),
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
        (r#"[1, {"a":"\/"}]"#, r#"[1,{"a":"\/"}]"#),
        (" \"x\" ", r#""x""#),
    ] {
        let text = format!(r#"{{"metadata":{{}},"data": {sent} ,"revision":0}}"#);
        let decoded = decode::json(text.as_bytes(), message, &Limits::default()).unwrap().value;
        let want = format!(r#"{{"metadata":{{}},"data":{shown},"revision":0}}"#);
        assert_eq!(json::to_string(&decoded), want);
        let mut stored = Vec::new();
        proto::encode(&decoded, message, &mut stored);
        let kept = stored.windows(sent.trim().len()).any(|part| part == sent.trim().as_bytes());
        assert!(kept, "{sent}");
        let read = proto::decode_object(&stored, message, "", "", proto::DEPTH).unwrap();
        assert_eq!(read.get("data"), decoded.get("data"), "{sent}");
        let mut streamed = Vec::new();
        proto::to_json(&stored, message, "", "", proto::Overrides::default(), &mut streamed).unwrap();
        assert_eq!(String::from_utf8(streamed).unwrap(), json::to_string(&read));
        // It is a tree in YAML, and once it is accessed.
        let mut tree = decoded.clone();
        json::unpack(&mut tree);
        assert!(!matches!(tree.get("data"), Some(Value::Raw(_))), "{sent}");
        let mut in_yaml = yaml::parse(yaml::to_string(&decoded).as_bytes(), &Limits::default()).unwrap().0;
        [&mut in_yaml, &mut tree].into_iter().for_each(binnacle_schema::sort_free_form);
        let data = |value: &Value| value.get("data").map(json::to_string);
        assert_eq!(data(&in_yaml), data(&tree), "{sent}");
    }
}
