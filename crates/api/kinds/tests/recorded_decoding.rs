//! Requests that kube-apiserver cannot decode result in the same error messages.

use binnacle_kinds::tables;
use binnacle_schema::{Limits, decode, json, yaml};
use binnacle_test_requirements::shared;
use serde_json::Value;

/// Returns all recorded request steps.
fn steps() -> Vec<Value> {
    let entries = std::fs::read_dir(shared("conformance/cases")).expect("the directory can be read");
    let mut steps = Vec::new();
    for entry in entries {
        let text = std::fs::read(entry.expect("the directory can be read").path()).expect("the file can be read");
        let file: Value = serde_json::from_slice(&text).expect("case files are JSON");
        for case in file["cases"].as_array().expect("a file has cases") {
            steps.extend(case["steps"].as_array().expect("a case has steps").iter().cloned());
        }
    }
    steps
}

/// Returns the body that the step sends.
fn body(step: &Value) -> Option<Vec<u8>> {
    match (&step["raw"], &step["body"]) {
        (Value::String(raw), _) => Some(raw.clone().into_bytes()),
        (_, Value::Null) => None,
        (_, body) => Some(body.to_string().into_bytes()),
    }
}

fn is_yaml(step: &Value) -> bool {
    step["headers"]["Content-Type"].as_str().is_some_and(|media_type| media_type.contains("yaml"))
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn decoding_errors_match_recorded_ones() {
    let mut compared = 0;
    for step in steps() {
        let message = step["expect"]["body"]["message"].as_str().unwrap_or_default();
        let Some((head, want)) = message.split_once(" cannot be handled as a ") else { continue };
        let Some((kind, want)) = want.split_once(": ") else { continue };
        // `ConfigMap in version "v1"`, and the kind of the path.
        let version = head.rsplit(' ').next().unwrap_or_default().trim_matches('"');
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let group = match step["path"].as_str().unwrap_or_default().split('/').collect::<Vec<_>>()[..] {
            ["", "apis", group, ..] => group,
            _ => group,
        };
        let Some(table) = tables::kind(group, version, kind) else { continue };
        // Another kind than the path's, or protobuf: not an error of the decoder.
        let (Some(bytes), true) = (body(&step), head.starts_with(&format!("{kind} "))) else { continue };
        let decoded = match is_yaml(&step) {
            true => decode::yaml(&bytes, table, &Limits::default()),
            false => decode::json(&bytes, table, &Limits::default()),
        };
        let got = match decoded {
            Ok(decoded) => decoded.findings.strict_error().unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, want, "{step}");
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} recorded answers were compared");
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn type_meta_errors_match_recorded_ones() {
    let mut compared = 0;
    for step in steps() {
        let message = step["expect"]["body"]["message"].as_str().unwrap_or_default();
        let Some(bytes) = body(&step) else { continue };
        let (want, got) = if let Some((head, want)) = message.split_once("json parse error: ")
            && !head.contains("webhook")
        {
            (want, json::type_meta(&bytes, &Limits::default()).map(|_| ()).map_err(|error| error.to_string()))
        } else if let Some(at) = message.find("yaml: ") {
            let parsed = yaml::parse(&bytes, &Limits::default());
            let found = parsed.map_err(|error| error.to_string());
            let found = found.and_then(|(_, finding)| finding.map_or(Ok(()), |finding| Err(finding.to_string())));
            (&message[at..], found)
        } else {
            continue;
        };
        let got = got.expect_err("the reference refused it");
        // kube-apiserver appends the document to its message.
        assert!(want.starts_with(&got), "{got:?} for {want:?}");
        compared += 1;
    }
    assert!(compared >= 4, "only {compared} recorded answers were compared");
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn field_warnings_match_recorded_ones() {
    let mut compared = 0;
    for step in steps() {
        let path = step["path"].as_str().unwrap_or_default();
        let (true, Some(bytes)) = (step["do"] == "POST" && path.ends_with("/configmaps"), body(&step)) else {
            continue;
        };
        if step["query"]["fieldValidation"] != "Warn" {
            continue;
        }
        let table = tables::kind("", "v1", "ConfigMap").expect("there are config maps");
        let decoded = match is_yaml(&step) {
            true => decode::yaml(&bytes, table, &Limits::default()),
            false => decode::json(&bytes, table, &Limits::default()),
        };
        let quoted = |text: String| format!("299 - {}", Value::from(text));
        let mut got: Vec<String> =
            decoded.expect("the reference took it").findings.warnings().into_iter().map(quoted).collect();
        let want = step["expect"]["headers"]["Warning"].as_array().cloned().unwrap_or_default();
        let mut want: Vec<String> = want.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        // The recorder sorts headers with the same name.
        got.sort();
        want.sort();
        assert_eq!(got, want, "{step}");
        compared += 1;
    }
    assert!(compared >= 3, "only {compared} recorded answers were compared");
}
