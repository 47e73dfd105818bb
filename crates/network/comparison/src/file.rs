//! The text of a file of cases, with one line for a step and one for its expected response, so that diffs are small.

use serde_json::{Map, Value};

use crate::case::{self, Case};

/// A parsed file, in which responses can be recorded.
pub struct File {
    area: Value,
    cases: Vec<Map<String, Value>>,
}

impl File {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// If it has unknown members.
    pub fn parse(text: &str) -> Result<Self, String> {
        case::parse(text)?;
        let mut members: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut member = |name: &str| members.remove(name).unwrap_or_default();
        let (area, cases) = (member("area"), member("cases"));
        Ok(Self { area, cases: serde_json::from_value(cases).map_err(|error| error.to_string())? })
    }

    /// Returns the cases in their order.
    ///
    /// # Errors
    /// Those of [`File::parse`].
    pub fn cases(&self) -> Result<Vec<Case>, String> {
        Ok(case::parse(&self.text())?.cases)
    }

    /// Sets the expected responses of the case at an index.
    pub fn expect(&mut self, place: usize, recorded: Vec<Option<Value>>) {
        let steps = self.cases.get_mut(place).and_then(|case| case.get_mut("steps")?.as_array_mut());
        for (step, recorded) in steps.into_iter().flatten().zip(recorded) {
            if let Some(step) = step.as_object_mut() {
                match recorded {
                    Some(recorded) => step.insert("expect".to_owned(), recorded),
                    None => step.remove("expect"),
                };
            }
        }
    }

    /// Returns the text of the file, which ends with a line break.
    #[must_use]
    pub fn text(&self) -> String {
        let cases: Vec<String> = self.cases.iter().map(case_text).collect();
        format!("{{\"area\": {},\n\"cases\": [\n{}\n]}}\n", self.area, cases.join(",\n"))
    }
}

fn case_text(case: &Map<String, Value>) -> String {
    let steps = case.get("steps").and_then(Value::as_array).into_iter().flatten();
    let steps: Vec<String> = steps.map(step_text).collect();
    let head = in_order(case, &["name", "about"], &["steps"]);
    format!(" {{{head}, \"steps\": [\n{}\n ]}}", steps.join(",\n"))
}

fn step_text(step: &Value) -> String {
    let Some(members) = step.as_object() else { return step.to_string() };
    let sent = in_order(members, &["do", "watch", "events", "path"], &["expect"]);
    match members.get("expect") {
        Some(expect) => format!("  {{{sent},\n   \"expect\": {expect}}}"),
        None => format!("  {{{sent}}}"),
    }
}

/// Formats members without braces: first those of `first`, then the others by name, except those of `without`.
fn in_order(members: &Map<String, Value>, first: &[&str], without: &[&str]) -> String {
    let mut rest: Vec<&str> = members.keys().map(String::as_str).collect();
    rest.retain(|name| !first.contains(name) && !without.contains(name));
    rest.sort_unstable();
    let present = |name: &&str| Some(format!("{}: {}", Value::from(*name), members.get(*name)?));
    first.iter().chain(&rest).filter_map(present).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::File;

    const TEXT: &str = r#"{"area": "a",
"cases": [
 {"name": "n", "about": "x", "exclusive": true, "steps": [
  {"do": "GET", "path": "/version", "check": false},
  {"do": "GET", "path": "/api", "compare": "status",
   "expect": {"headers":{},"status":200}}
 ]}
]}
"#;

    #[test]
    fn round_trips_files() {
        let mut file = File::parse(TEXT).unwrap();
        assert_eq!(file.text(), TEXT);
        file.expect(0, vec![None, Some(json!({"status": 404}))]);
        assert_eq!(file.text(), TEXT.replace(r#"{"headers":{},"status":200}"#, r#"{"status":404}"#));
        let compact: serde_json::Value = serde_json::from_str(TEXT).unwrap();
        assert_eq!(File::parse(&compact.to_string()).unwrap().text(), TEXT);
        assert!(File::parse(&TEXT.replace("about", "abuot")).is_err());
    }
}
