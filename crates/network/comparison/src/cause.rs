//! The cause of a difference: requests whose responses differ at the same place have one cause.

use std::fmt::Write as _;

use xxhash_rust::xxh3::xxh3_64;

use crate::difference::Difference;
use crate::pointer::{escape, parts};
use crate::subject::Subject;

/// Members whose names are chosen by users: all of them are one place.
const FREE_NAMES: [&str; 12] = [
    "annotations",
    "binaryData",
    "data",
    "definitions",
    "labels",
    "limits",
    "matchLabels",
    "paths",
    "properties",
    "requests",
    "schemas",
    "stringData",
];

/// A group of differences that are counted, logged and recorded together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// `verb resource: place`, such as `list pods: /body/items/*/spec/nodeName`.
    pub text: String,
}

impl Cause {
    /// Returns the cause of the first difference. A different status is the cause of all other differences.
    #[must_use]
    pub fn of(subject: &Subject, differences: &[Difference]) -> Self {
        let status = differences.iter().find(|found| found.path == "/status");
        let place = match (status, differences.first()) {
            (Some(status), _) => {
                let code =
                    |value: &Option<serde_json::Value>| value.as_ref().map_or_else(String::new, ToString::to_string);
                format!("status {} and {}", code(&status.expected), code(&status.got))
            }
            (None, Some(first)) => place(&first.path),
            (None, None) => "nothing".to_owned(),
        };
        Self { text: format!("{} {}: {place}", subject.verb, subject.resource) }
    }

    /// Returns a short name for files.
    #[must_use]
    pub fn slug(&self) -> String {
        let mut slug = String::new();
        for letter in self.text.chars().take(60) {
            match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' => slug.push(letter),
                _ if slug.ends_with('-') => {}
                _ => slug.push('-'),
            }
        }
        let _ = write!(slug, "-{:016x}", xxh3_64(self.text.as_bytes()));
        slug
    }
}

/// Returns a JSON pointer in which indices of lists and names chosen by users are `*`.
pub(crate) fn place(path: &str) -> String {
    let mut out = String::new();
    let mut is_free = false;
    for part in parts(path) {
        let is_index = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_key = ["f:", "k:", "v:"].iter().any(|prefix| part.starts_with(prefix));
        out.push('/');
        if is_free || is_index || is_key {
            out.push('*');
            is_free = false;
        } else {
            out += &escape(&part);
            is_free = FREE_NAMES.contains(&part.as_str());
        }
    }
    if out.is_empty() { "/".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Cause, place};
    use crate::difference::Difference;
    use crate::endpoint::Outgoing;
    use crate::subject::Subject;

    #[test]
    fn places_have_no_indices_and_names_of_users() {
        for (path, want) in [
            ("/body/items/12/spec/nodeName", "/body/items/*/spec/nodeName"),
            ("/body/metadata/labels/a~1b", "/body/metadata/labels/*"),
            ("/body/data/data/x", "/body/data/*/x"),
            ("/body/metadata/managedFields/0/fieldsV1/f:spec", "/body/metadata/managedFields/*/fieldsV1/*"),
            ("/status", "/status"),
            ("", "/"),
        ] {
            assert_eq!(place(path), want);
        }
    }

    #[test]
    fn differences_at_one_place_have_one_cause() {
        let subject = |target: &str| Subject::parse(Outgoing::empty("GET", target)).unwrap();
        let at = |path: &str| {
            let path = path.to_owned();
            Difference { path, expected: Some(json!(200)), got: Some(json!(404)) }
        };
        let pods = |namespace: &str| subject(&format!("/api/v1/namespaces/{namespace}/pods"));
        let one = Cause::of(&pods("a"), &[at("/body/items/0/spec")]);
        assert_eq!(one, Cause::of(&pods("b"), &[at("/body/items/7/spec"), at("/body/items/8/spec")]));
        assert_eq!(one.text, "list pods: /body/items/*/spec");
        assert_eq!(
            one.slug(),
            format!("list-pods-body-items-spec-{:016x}", xxhash_rust::xxh3::xxh3_64(one.text.as_bytes()))
        );
        let status = Cause::of(&subject("/apis/apps/v1"), &[at("/body/code"), at("/status")]);
        assert_eq!(status.text, "get /apis: status 200 and 404");
    }
}
