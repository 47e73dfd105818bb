//! The format of recorded cases, described in `docs/testing.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

/// The cases of one file.
#[derive(Debug)]
pub struct Area {
    pub area: String,
    pub cases: Vec<Case>,
}

/// A test case: a sequence of requests to a server.
#[derive(Debug)]
pub struct Case {
    pub head: Head,
    pub steps: Vec<Step>,
    /// The text of all requests: addresses and ports in it were chosen by the case.
    pub sent: String,
}

/// The members of a case other than its steps.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub name: String,
    /// The behaviour that a client relies on.
    pub about: String,
    /// True if the case gets a namespace of its own, `{{ns}}`.
    #[serde(default = "yes")]
    pub namespace: bool,
    #[serde(default)]
    pub namespace_labels: Map<String, Value>,
    /// True if that namespace gets a service account `default`.
    #[serde(default)]
    pub serviceaccount: bool,
    /// True if the case affects other cases, so that it runs alone.
    #[serde(default)]
    pub exclusive: bool,
}

/// A request, the opening of a watch, or the events of one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The method of a request.
    #[serde(rename = "do")]
    pub method: Option<String>,
    /// The name of a watch to open.
    pub watch: Option<String>,
    /// The name of a watch from which to take events.
    pub events: Option<String>,
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub query: Map<String, Value>,
    #[serde(default)]
    pub headers: Map<String, Value>,
    pub body: Option<Value>,
    pub raw: Option<String>,
    pub base64: Option<String>,
    pub token: Option<String>,
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    pub retry_until: Option<Condition>,
    #[serde(default)]
    pub compare: Compare,
    #[serde(default)]
    pub select: Vec<String>,
    #[serde(default)]
    pub ignore: Vec<String>,
    #[serde(default)]
    pub sort: BTreeMap<String, String>,
    #[serde(default)]
    pub any_order: bool,
    #[serde(default)]
    pub check_headers: Vec<String>,
    pub jwt: Option<String>,
    /// False if the response is only used to capture values.
    #[serde(default = "yes")]
    pub check: bool,
    pub count: Option<usize>,
    pub until: Option<Until>,
    /// The maximum time for events, in seconds.
    pub timeout: Option<f64>,
    #[serde(default)]
    pub sort_events: bool,
    pub expect: Option<Value>,
}

/// The part of a response that is compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    #[default]
    Everything,
    /// The status and the headers.
    Status,
    /// The members that `select` names.
    Subset,
}

/// The event at which a step stops.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    Bookmark,
    Close,
}

/// A condition on the response; the request is repeated until it is met.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    #[serde(default)]
    pub status: Vec<u16>,
    pub contains: Option<String>,
    pub lacks: Option<String>,
    pub header: Option<String>,
    pub path: Option<String>,
    pub equals: Option<Value>,
    pub exists: Option<bool>,
    /// The time in seconds after which the response is compared in any case.
    pub timeout: Option<f64>,
    /// Seconds between two requests.
    pub interval: Option<f64>,
}

/// Reads all areas of a directory, in the order of their names.
///
/// # Errors
/// If a file cannot be read or has unknown members.
pub fn read(directory: &Path) -> Result<Vec<Area>, String> {
    let error = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let area = |path: &Path| {
        let text = std::fs::read_to_string(path).map_err(|failed| error(path, &failed))?;
        parse(&text).map_err(|failed| error(path, &failed))
    };
    paths(directory)?.iter().map(|path| area(path)).collect()
}

/// Returns the files of a directory, by name.
fn paths(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
}

/// Reads all areas of a directory, and returns the cases in a format that is not supported by their names.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn read_supported(directory: &Path) -> Result<(Vec<Area>, Vec<String>), String> {
    let (mut areas, mut unsupported) = (Vec::new(), Vec::new());
    for path in paths(directory)? {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (area, rest) = parse_supported(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        areas.push(area);
        unsupported.extend(rest);
    }
    Ok((areas, unsupported))
}

/// Reads the supported cases of one file, and returns the names of the others.
pub(crate) fn parse_supported(text: &str) -> Result<(Area, Vec<String>), String> {
    let mut file: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let area = file.get("area").and_then(Value::as_str).ok_or("no area")?.to_owned();
    let all = file.remove("cases").unwrap_or_default();
    let all: Vec<Map<String, Value>> = serde_json::from_value(all).map_err(|error| error.to_string())?;
    let (mut cases, mut unsupported) = (Vec::new(), Vec::new());
    for members in all {
        let name = members.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        match case(members) {
            Ok(case) => cases.push(case),
            Err(_) => unsupported.push(format!("{area}/{name}")),
        }
    }
    Ok((Area { area, cases }, unsupported))
}

/// Reads the text of one file.
///
/// # Errors
/// If it has unknown members.
pub fn parse(text: &str) -> Result<Area, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        area: String,
        cases: Vec<Map<String, Value>>,
    }
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let cases = file.cases.into_iter().map(case).collect::<Result<_, _>>()?;
    Ok(Area { area: file.area, cases })
}

fn case(mut members: Map<String, Value>) -> Result<Case, String> {
    let steps = members.remove("steps").unwrap_or_default();
    let head: Head = serde_json::from_value(Value::Object(members)).map_err(|error| error.to_string())?;
    let mut steps: Vec<Value> = serde_json::from_value(steps).map_err(|error| format!("{}: {error}", head.name))?;
    let mut parsed = Vec::new();
    for (index, step) in steps.iter_mut().enumerate() {
        let place = format!("{} step {}", head.name, index + 1);
        one_status_as_list(step);
        let read: Step = serde_json::from_value(step.clone()).map_err(|error| format!("{place}: {error}"))?;
        if [&read.method, &read.watch, &read.events].iter().filter(|action| action.is_some()).count() != 1 {
            return Err(format!("{place}: exactly one of do, watch and events is needed"));
        }
        if let Some(step) = step.as_object_mut() {
            step.remove("expect");
        }
        parsed.push(read);
    }
    Ok(Case { head, steps: parsed, sent: Value::Array(steps).to_string() })
}

/// Converts `"status": 200` in a condition to `"status": [200]`.
fn one_status_as_list(step: &mut Value) {
    if let Some(status) = step.pointer_mut("/retry_until/status").filter(|status| status.is_number()) {
        *status = Value::Array(vec![status.take()]);
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::{Compare, parse};

    #[test]
    fn rejects_unknown_members() {
        let text =
            |step: &str| format!(r#"{{"area": "a", "cases": [{{"name": "n", "about": "x", "steps": [{step}]}}]}}"#);
        for (step, want) in [
            (r#"{"do": "GET", "path": "/version", "expect": {}}"#, None),
            (r#"{"do": "GET", "path": "/version", "retry_until": {"status": 200}}"#, None),
            (r#"{"do": "GET", "paht": "/version"}"#, Some("n step 1: unknown field `paht`")),
            (r#"{"do": "GET", "retry_until": {"statu": 200}}"#, Some("n step 1: unknown field `statu`")),
            (r#"{"do": "GET", "compare": "nothing"}"#, Some("n step 1: unknown variant `nothing`")),
            (r#"{"path": "/version"}"#, Some("n step 1: exactly one of do, watch and events is needed")),
            (r#"{"do": "GET", "watch": "w"}"#, Some("n step 1: exactly one of do, watch and events is needed")),
            (r#"{"sleep": 1}"#, Some("n step 1: unknown field `sleep`")),
        ] {
            let failed = parse(&text(step)).err();
            assert_eq!(failed.is_some(), want.is_some(), "{step}: {failed:?}");
            assert!(failed.unwrap_or_default().starts_with(want.unwrap_or_default()), "{step}");
        }
        let area = parse(&text(r#"{"do": "GET", "path": "/version", "expect": {"status": 200}}"#)).unwrap();
        assert!(area.cases[0].head.namespace && area.cases[0].steps[0].check);
        assert_eq!(area.cases[0].steps[0].compare, Compare::Everything);
        assert_eq!(area.cases[0].sent, r#"[{"do":"GET","path":"/version"}]"#, "expectations are not sent");
    }
}
