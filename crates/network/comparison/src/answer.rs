//! A response, and the part of it that a step compares.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use crate::case::{Compare, Step};
use crate::template::{Variables, expand_text};
use crate::text::Texts;
use crate::{claims, normal, pointer, protobuf};

/// A complete response.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub data: Bytes,
}

impl Answer {
    /// Returns the body as a value: JSON unchanged, protobuf described, anything else as text. Recorded cases contain
    /// these values.
    pub(crate) fn parsed(&self) -> Value {
        let kind = header(&self.headers, CONTENT_TYPE.as_str());
        if kind.contains("vnd.kubernetes.protobuf") {
            return protobuf::describe(&self.data);
        }
        let text = self.text();
        if kind.contains("json") || kind.is_empty() || text.starts_with('{') {
            return serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text));
        }
        Value::from(text)
    }

    /// Returns the body as a tree, YAML included, for comparisons that read into it.
    pub(crate) fn tree(&self) -> Value {
        let is_yaml = header(&self.headers, CONTENT_TYPE.as_str()).contains("yaml");
        let yaml = if is_yaml { self.parsed_yaml() } else { None };
        yaml.unwrap_or_else(|| self.parsed())
    }

    fn parsed_yaml(&self) -> Option<Value> {
        let (tree, _) = binnacle_schema::yaml::parse(&self.data, &binnacle_schema::Limits::default()).ok()?;
        let mut json = Vec::new();
        binnacle_schema::json::write(&tree, &mut json);
        serde_json::from_slice(&json).ok()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }
}

pub(crate) fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

/// Returns the normal form of the parts of a response that a step compares.
pub(crate) fn observe(
    step: &Step,
    status: u16,
    headers: &HeaderMap,
    parsed: &Value,
    variables: &Variables,
    texts: &mut Texts,
) -> Result<Value, String> {
    let mut got = json!({"status": status, "headers": observe_headers(step, headers, texts)});
    let claims = step.jwt.as_ref().map(|at| match pointer::lookup(parsed, at) {
        Some(Value::String(token)) => normal::body(texts, &claims::describe(token)),
        _ => Value::from("<missing>"),
    });
    if step.compare == Compare::Status {
        return Ok(got);
    }
    got["body"] = normal::body(texts, &trim(step, parsed, variables)?);
    if let Some(claims) = claims {
        got["jwt"] = claims;
    }
    Ok(got)
}

/// Returns the content type, warnings, and the headers that the step names.
pub(crate) fn observe_headers(step: &Step, headers: &HeaderMap, texts: &mut Texts) -> Value {
    normal_headers(&step.check_headers, headers, texts)
}

/// Returns the content type, warnings, and the named headers.
pub(crate) fn normal_headers(names: &[String], headers: &HeaderMap, texts: &mut Texts) -> Value {
    let mut chosen = Map::new();
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let kind = header(headers, CONTENT_TYPE.as_str());
    if !kind.is_empty() {
        chosen.insert("Content-Type".to_owned(), Value::from(kind));
    }
    let warnings = all("Warning");
    if !warnings.is_empty() {
        let warnings: Vec<String> = warnings.iter().map(|warning| texts.normal(warning)).collect();
        chosen.insert("Warning".to_owned(), Value::from(warnings));
    }
    for name in names {
        let values: Vec<String> = all(name).iter().map(|value| texts.header(value)).collect();
        let value = if values.is_empty() { Value::from("<absent>") } else { Value::from(values) };
        chosen.insert(name.clone(), value);
    }
    Value::Object(chosen)
}

/// Removes the parts that the step ignores, sorts unordered ones, and keeps those that it selects.
pub(crate) fn trim(step: &Step, parsed: &Value, variables: &Variables) -> Result<Value, String> {
    let mut value = parsed.clone();
    if !value.is_object() && !value.is_array() {
        return Ok(value);
    }
    for pointer in &step.ignore {
        pointer::remove(&mut value, pointer);
    }
    for (at, key) in &step.sort {
        pointer::sort(&mut value, at, key);
    }
    if step.any_order {
        pointer::order_causes(&mut value);
    }
    if step.compare != Compare::Subset {
        return Ok(value);
    }
    let mut chosen = Map::new();
    for pointer in &step.select {
        chosen.extend(pointer::select(&value, &expand_text(pointer, variables)?));
    }
    Ok(Value::Object(chosen))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue};
    use serde_json::{Value, json};

    use super::{Answer, observe};
    use crate::case::Step;
    use crate::template::Variables;
    use crate::text::Texts;

    fn answer(kind: &str, body: &str) -> Answer {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert("content-type", HeaderValue::from_str(kind).unwrap());
        }
        headers.append("warning", HeaderValue::from_static("299 - \"a\""));
        headers.append("warning", HeaderValue::from_static("299 - \"b\""));
        Answer { status: 200, headers, data: Bytes::copy_from_slice(body.as_bytes()) }
    }

    #[test]
    fn keeps_the_parts_that_a_step_compares() {
        let answer = answer("application/json", r#"{"a": [{"n": 2}, {"n": 1}], "b": {"c": 1}}"#);
        let base = || json!({"status": 200, "headers": {"Content-Type": "application/json", "Warning": ["299 - \"a\"", "299 - \"b\""]}});
        let with = |body: Value| {
            let mut want = base();
            want["body"] = body;
            want
        };
        for (step, want) in [
            (json!({"do": "GET"}), with(answer.parsed())),
            (json!({"do": "GET", "compare": "status"}), base()),
            (
                json!({"do": "GET", "compare": "subset", "select": ["/a/*/n", "/b/x"]}),
                with(json!({"/a/0/n": 2, "/a/1/n": 1, "/b/x": "<missing>"})),
            ),
            (json!({"do": "GET", "ignore": ["/a"]}), with(json!({"b": {"c": 1}}))),
            (json!({"do": "GET", "ignore": ["/b"], "sort": {"/a": "/n"}}), with(json!({"a": [{"n": 1}, {"n": 2}]}))),
        ] {
            let read: Step = serde_json::from_value(step.clone()).unwrap();
            let mut texts = Texts::new(String::new());
            let got = observe(&read, 200, &answer.headers, &answer.parsed(), &Variables::new(), &mut texts);
            assert_eq!(got.unwrap(), want, "{step}");
        }
        let step = json!({"do": "GET", "compare": "status", "check_headers": ["Retry-After", "Warning"]});
        let step: Step = serde_json::from_value(step).unwrap();
        let got = observe(&step, 429, &answer.headers, &Value::Null, &Variables::new(), &mut Texts::new(String::new()));
        let got = got.unwrap();
        assert_eq!((&got["status"], &got["headers"]["Retry-After"]), (&json!(429), &json!("<absent>")));
    }

    #[test]
    fn parses_bodies_by_media_type() {
        for (kind, body, want) in [
            ("application/json", "{}", json!({})),
            ("application/json;as=Table", "[1]", json!([1])),
            ("", "[1]", json!([1])),
            ("text/plain", "[1]", json!("[1]")),
            ("text/plain", "{\"a\":1}", json!({"a": 1})),
            ("application/yaml", "a: 1\n", json!("a: 1\n")),
            ("application/json", "not", json!("not")),
            ("application/vnd.kubernetes.protobuf", "{}", json!({"magic": "{}"})),
        ] {
            assert_eq!(answer(kind, body).parsed(), want, "{kind} {body}");
        }
    }

    #[test]
    fn reads_trees_in_yaml() {
        let tree = |kind: &str, body: &str| answer(kind, body).tree();
        assert_eq!(tree("application/yaml", "a:\n- 1\n- b: \"2\"\n"), json!({"a": [1, {"b": "2"}]}));
        assert_eq!(tree("application/json", "[1]"), json!([1]));
    }
}
