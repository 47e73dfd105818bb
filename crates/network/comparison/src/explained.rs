//! The reviewed list of known gaps: differences that have a reason and need no report.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::cause::place;
use crate::difference::Difference;
use crate::subject::Subject;

/// The list of this repository.
const TABLE: &str = include_str!("../data/explained.tbl");

static REVIEWED: LazyLock<Rules> = LazyLock::new(|| {
    // A test parses the table.
    Rules::parse(TABLE).unwrap_or_else(|error| panic!("data/explained.tbl: {error}"))
});

/// A known gap.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    /// `verb resource`, in which `*` matches any text.
    requests: Regex,
    /// The place of the difference, in which `*` matches any text.
    place: Regex,
    /// The values of kube-apiserver and of Binnacle as JSON; `None` matches anything.
    values: [Option<Regex>; 2],
    /// The heading of `docs/known-gaps.md` that describes the gap.
    pub anchor: String,
    pub reason: String,
}

/// A list of known gaps.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Returns the list of this repository.
    #[must_use]
    pub fn reviewed() -> &'static Self {
        &REVIEWED
    }

    /// Returns an empty list: every difference is unexplained.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses a table. Each line has seven columns, separated by ` | `: name, requests, place, value of
    /// kube-apiserver, value of Binnacle, anchor, reason. Lines that begin with `#` are comments.
    ///
    /// # Errors
    /// If a line has another number of columns, or an invalid pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let rule =
            |(number, line): (usize, &str)| Rule::parse(line).map_err(|error| format!("line {}: {error}", number + 1));
        lines.map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// Returns the rule that explains a difference. The servers may be in either order.
    pub(crate) fn explain(&self, subject: &Subject, difference: &Difference) -> Option<&Rule> {
        let request = format!("{} {}", subject.verb, subject.resource);
        let place = place(&difference.path);
        self.0.iter().find(|rule| rule.matches(&request, &place, difference))
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, String> {
        let columns: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [name, requests, place, kube_apiserver, binnacle, anchor, reason] = columns[..] else {
            return Err(format!("{} columns instead of 7", columns.len()));
        };
        let value = |text: &str| match text {
            "*" => Ok(None),
            pattern => Regex::new(&format!("^(?:{pattern})$")).map(Some).map_err(|error| error.to_string()),
        };
        Ok(Self {
            name: name.to_owned(),
            requests: glob(requests)?,
            place: glob(place)?,
            values: [value(kube_apiserver)?, value(binnacle)?],
            anchor: anchor.to_owned(),
            reason: reason.to_owned(),
        })
    }

    fn matches(&self, request: &str, place: &str, difference: &Difference) -> bool {
        if !self.requests.is_match(request) || !self.place.is_match(place) {
            return false;
        }
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), Value::to_string);
        let (expected, got) = (text(&difference.expected), text(&difference.got));
        let is = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
        let [kube_apiserver, binnacle] = &self.values;
        is(kube_apiserver, &expected) && is(binnacle, &got) || is(kube_apiserver, &got) && is(binnacle, &expected)
    }
}

/// Compiles a text in which `*` matches any text.
fn glob(pattern: &str) -> Result<Regex, String> {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Regex::new(&format!("^{}$", parts.join(".*"))).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::Rules;
    use crate::difference::Difference;
    use crate::endpoint::Outgoing;
    use crate::subject::Subject;

    const GAPS: &str = include_str!("../../../../docs/known-gaps.md");

    fn explains(rules: &Rules, target: &str, path: &str, expected: Value, got: Value) -> bool {
        let subject = Subject::parse(Outgoing::empty("GET", target)).unwrap();
        let present = |value: Value| Some(value).filter(|value| *value != "absent");
        let difference = Difference { path: path.to_owned(), expected: present(expected), got: present(got) };
        rules.explain(&subject, &difference).is_some()
    }

    #[test]
    fn matches_requests_places_and_values_in_either_order() {
        let rules = Rules::parse("# comment\n\nn | list pods* | /body/items/*/x | \"a.*\" | absent | a | r\n").unwrap();
        let pods = "/api/v1/pods";
        for (target, path, expected, got, want) in [
            (pods, "/body/items/3/x", json!("abc"), json!("absent"), true),
            (pods, "/body/items/3/x", json!("absent"), json!("abc"), true),
            (pods, "/body/items/3/x", json!("b"), json!("absent"), false),
            (pods, "/body/items/3/x", json!("abc"), json!("b"), false),
            (pods, "/body/items/3/y", json!("abc"), json!("absent"), false),
            ("/api/v1/nodes", "/body/items/3/x", json!("abc"), json!("absent"), false),
        ] {
            assert_eq!(explains(&rules, target, path, expected, got), want, "{target} {path}");
        }
    }

    #[test]
    fn rejects_malformed_tables() {
        assert_eq!(Rules::parse("a | b").unwrap_err(), "line 1: 2 columns instead of 7");
        assert!(Rules::parse("n | * | * | ( | * | a | r").unwrap_err().starts_with("line 1: regex parse error"));
    }

    /// The names of anchors are those of mdBook and GitHub: lower case, hyphens for spaces, no other punctuation.
    #[test]
    fn every_rule_links_to_a_section_of_the_known_gaps() {
        let headings = GAPS.lines().filter_map(|line| line.strip_prefix('#'));
        let anchors: BTreeSet<String> = headings
            .map(|heading| {
                let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                text.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
            })
            .collect();
        let rules = Rules::reviewed();
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), rules.iter().count(), "names are unique");
        assert!(!names.is_empty());
        for rule in rules.iter() {
            assert!(anchors.contains(&rule.anchor), "{}: docs/known-gaps.md has no section {}", rule.name, rule.anchor);
            assert!(rule.reason.len() > 20, "{}: no reason", rule.name);
        }
    }
}
