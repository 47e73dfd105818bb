//! Normal forms of text: values that a server chooses are replaced by names that are the same in every run.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};

use crate::template::regex;

/// Replaces values that differ between runs, and records the number of each value.
pub(crate) struct Texts {
    /// The text of all requests: addresses and ports in it are compared unchanged.
    sent: String,
    /// Numbers by table and value: the same value gets the same number.
    numbers: HashMap<&'static str, HashMap<String, usize>>,
    /// Values that a run has chosen, and their names; longest value first.
    known: Vec<(String, String)>,
    /// True if all values are compared as they are, because both servers read the same store.
    is_exact: bool,
}

/// Times within this distance from now were set by the server.
const NEAR: SignedDuration = SignedDuration::from_hours(48);

struct Patterns {
    jwt: Regex,
    uuid: Regex,
    rfc3339: Regex,
    go_time: Regex,
    service_ip: Regex,
    token_volume: Regex,
    refused: Regex,
    versions: [Regex; 7],
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    jwt: regex(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"),
    uuid: regex(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    rfc3339: regex(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z"),
    go_time: regex(r"\b(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? \+0000 UTC(?: m=\S+)?"),
    service_ip: regex(r"\b10\.0\.0\.(\d{1,3})\b"),
    token_volume: regex(r"\bkube-api-access-[a-z0-9]{5}\b"),
    refused: regex(r"dial tcp [^ ]+: connect: connection refused"),
    versions: [
        regex(r"(ResourceVersion in (?:precondition|object meta): )\d+()"),
        regex(r"(too old resource version: )\d+(?: \(\d+\))?()"),
        regex(r"(current: )\d+()"),
        regex(r"(in the precondition \()\d+(\))"),
        regex(r"(in record \()\d+(\))"),
        regex(r#"(resourceVersion\\?":\\?")\d+()"#),
        regex(r#"(resourceVersion: ")\d+()"#),
    ],
});

impl Texts {
    pub(crate) fn new(sent: String) -> Self {
        Self { sent, numbers: HashMap::new(), known: Vec::new(), is_exact: false }
    }

    /// For responses about the same objects in the same store, whose identifiers and times must be equal.
    pub(crate) fn exact() -> Self {
        Self { is_exact: true, ..Self::new(String::new()) }
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Assigns to a value its name in the recording.
    pub(crate) fn call(&mut self, value: &str, name: String) {
        let pair = (value.to_owned(), name);
        if !value.is_empty() && !self.known.contains(&pair) {
            self.known.push(pair);
            self.known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        }
    }

    /// Assigns the next number to a name that the server generated from a prefix, which is `shown` in the recording.
    pub(crate) fn call_name_from(&mut self, prefix: &str, name: &str, shown: &str) {
        // The server cuts longer prefixes.
        let kept: String = prefix.chars().take(58).collect();
        if !name.starts_with(&kept) || name == prefix {
            return;
        }
        let length = name.chars().count() - kept.chars().count();
        let table = self.numbers.entry("generated").or_default();
        let number = table.len() + 1;
        table.insert(name.to_owned(), number);
        let called = format!("<generated:{number}:{shown}+{length}>");
        // Errors quote a name like Go.
        let quoted = binnacle_meta::go_quote(name);
        let quoted = quoted.trim_matches('"');
        if quoted != name {
            self.call(quoted, called.clone());
        }
        self.call(name, called);
    }

    /// Returns the name of a table's value, with numbers in the order of first occurrence.
    pub(crate) fn number(&mut self, table: &'static str, value: &str) -> String {
        let numbers = self.numbers.entry(table).or_default();
        let next = numbers.len() + 1;
        let number = *numbers.entry(value.to_owned()).or_insert(next);
        format!("<{table}:{number}>")
    }

    /// Returns the name of a node port, unless the case chose the port.
    pub(crate) fn port(&mut self, port: &str) -> Option<String> {
        (!self.is_exact && !self.sent.contains(port)).then(|| self.number("nodeport", port))
    }

    pub(crate) fn normal(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.is_exact {
            return text;
        }
        for (value, name) in &self.known {
            if text.contains(value.as_str()) {
                text = text.replace(value, name);
            }
        }
        let patterns = &*PATTERNS;
        text = replace(text, &patterns.jwt, |_| "<jwt>".to_owned());
        text = replace(text, &patterns.uuid, |found| self.number("uid", &found[0]));
        text = replace(text, &patterns.rfc3339, |found| match (near_now(&found[1]), found.get(2)) {
            (true, Some(_)) => "<microtime>".to_owned(),
            (true, None) => "<time>".to_owned(),
            (false, _) => found[0].to_owned(),
        });
        text = replace(text, &patterns.go_time, |found| {
            let near = near_now(&format!("{}T{}", &found[1], &found[2]));
            if near { "<gotime>".to_owned() } else { found[0].to_owned() }
        });
        text = replace(text, &patterns.service_ip, |found| {
            let chosen = &found[1] == "0" || self.sent.contains(&found[0]);
            if chosen { found[0].to_owned() } else { self.number("ip", &found[0]) }
        });
        text = replace(text, &patterns.token_volume, |_| "kube-api-access-<suffix>".to_owned());
        text = replace(text, &patterns.refused, |_| "<connection refused>".to_owned());
        for pattern in &patterns.versions {
            text = replace(text, pattern, |found| format!("{}<rv>{}", &found[1], &found[2]));
        }
        text
    }

    /// Returns the normal form of a header. Object identifiers are not numbered, since some occur in no body.
    pub(crate) fn header(&mut self, value: &str) -> String {
        if self.is_exact {
            return value.to_owned();
        }
        let uuid = &PATTERNS.uuid;
        if uuid.is_match(value) { uuid.replace_all(value, "<uuid>").into_owned() } else { self.normal(value) }
    }
}

fn replace(text: String, pattern: &Regex, with: impl FnMut(&Captures<'_>) -> String) -> String {
    if pattern.is_match(&text) { pattern.replace_all(&text, with).into_owned() } else { text }
}

fn near_now(time: &str) -> bool {
    let time = format!("{time}Z").parse::<Timestamp>();
    time.is_ok_and(|time| time.duration_since(Timestamp::now()).abs() < NEAR)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::Texts;

    #[test]
    fn replaces_values_that_differ_between_runs() {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let go = Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        let (a, b) = ("0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002");
        let mut texts = Texts::new("\"clusterIP\": \"10.0.0.7\"".to_owned());
        texts.call("c-abc", "{{ns}}".to_owned());
        texts.call("abc", "{{id}}".to_owned());
        texts.call_name_from("abc-", "abc-x7k2p", "{{id}}-");
        for (text, want) in [
            ("in c-abc of abc, abc-x7k2p".to_owned(), "in {{ns}} of {{id}}, <generated:1:{{id}}-+5>"),
            (format!("{a} {b} {a}"), "<uid:1> <uid:2> <uid:1>"),
            (format!("{b}0 x{a}"), &*format!("{b}0 x{a}")),
            (format!("{now}Z {now}.123456Z 2020-01-01T00:00:00Z"), "<time> <microtime> 2020-01-01T00:00:00Z"),
            (format!("{go}.5 +0000 UTC m=+1.2 x"), "<gotime> x"),
            ("2020-13-41T00:00:00Z".to_owned(), "2020-13-41T00:00:00Z"),
            (
                "10.0.0.7 10.0.0.9 10.0.0.0/24 10.0.0.9 110.0.0.1".to_owned(),
                "10.0.0.7 <ip:1> 10.0.0.0/24 <ip:1> 110.0.0.1",
            ),
            ("kube-api-access-x7k2p".to_owned(), "kube-api-access-<suffix>"),
            ("eyJh.eyJp.c2ln!".to_owned(), "<jwt>!"),
            ("dial tcp 127.0.0.1:9: connect: connection refused".to_owned(), "<connection refused>"),
            (
                "ResourceVersion in precondition: 5, object meta: 6".to_owned(),
                "ResourceVersion in precondition: <rv>, object meta: 6",
            ),
            ("too old resource version: 5 (77)".to_owned(), "too old resource version: <rv>"),
            ("UID in the precondition (5) in record (6)".to_owned(), "UID in the precondition (<rv>) in record (<rv>)"),
            (
                r#"{"resourceVersion":"5"} resourceVersion: "6""#.to_owned(),
                r#"{"resourceVersion":"<rv>"} resourceVersion: "<rv>""#,
            ),
        ] {
            assert_eq!(texts.normal(&text), want, "{text}");
        }
    }

    #[test]
    fn keeps_all_values_of_the_same_store() {
        let mut texts = Texts::exact();
        let text = format!("{} 0a1b2c3d-0000-4000-8000-000000000001 10.0.0.9", Timestamp::now());
        assert_eq!((texts.normal(&text), texts.header(&text), texts.port("31000")), (text.clone(), text, None));
    }

    #[test]
    fn replaces_ports_and_headers() {
        let mut texts = Texts::new("\"nodePort\": 30007".to_owned());
        assert_eq!(texts.port("30007"), None);
        assert_eq!(texts.port("31000").as_deref(), Some("<nodeport:1>"));
        assert_eq!(texts.port("31000").as_deref(), Some("<nodeport:1>"));
        assert_eq!(texts.header("0a1b2c3d-0000-4000-8000-000000000001"), "<uuid>");
        assert_eq!(texts.header("no-cache"), "no-cache");
    }
}
