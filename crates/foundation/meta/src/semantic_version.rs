//! Semantic versions, parsed and compared as by `github.com/blang/semver`.

use std::cmp::Ordering;
use std::fmt;

use crate::go_quote;

/// A version such as `1.2.3-alpha.1`. Build metadata after a `+` is only displayed.
#[derive(Clone, Debug, Default)]
pub struct SemanticVersion {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
    text: String,
}

/// An identifier of a prerelease. Numbers sort before text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl SemanticVersion {
    /// Parses a version by the rules of semver.org.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [number(major, "major")?, number(minor, "minor")?, number(patch, "patch")?];
        let prerelease = prerelease.into_iter().flat_map(|words| words.split('.')).map(identifier);
        let prerelease = prerelease.collect::<Result<_, _>>()?;
        for word in build.into_iter().flat_map(|build| build.split('.')) {
            if word.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(word) {
                return Err(format!("Invalid character(s) found in build meta data {}", go_quote(word)));
            }
        }
        Ok(Self { numbers, prerelease, text: text.to_owned() })
    }

    /// Like [`SemanticVersion::parse`], but fills in missing numbers, and drops a leading `v` and leading zeros.
    pub fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let stripped = part.trim_start_matches('0');
            *part = if stripped.starts_with(|c: char| c.is_ascii_digit()) {
                stripped.to_owned()
            } else {
                format!("0{stripped}")
            };
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Returns major, minor and patch number.
    pub fn numbers(&self) -> [u64; 3] {
        self.numbers
    }
}

impl Ord for SemanticVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        // A version sorts after its prereleases.
        let released = self.prerelease.is_empty().cmp(&other.prerelease.is_empty());
        self.numbers.cmp(&other.numbers).then(released).then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

impl PartialOrd for SemanticVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SemanticVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SemanticVersion {}

impl fmt::Display for SemanticVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn number(text: &str, which: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {which} number {}", go_quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        let which = format!("{}{}", which[..1].to_ascii_uppercase(), &which[1..]);
        return Err(format!("{which} number must not contain leading zeroes {}", go_quote(text)));
    }
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", go_quote(text))
    })
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", go_quote(text)));
        }
        let range = |_| format!("strconv.ParseUint: parsing {}: value out of range", go_quote(text));
        return text.parse().map(Identifier::Number).map_err(range);
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", go_quote(text)));
    }
    Ok(Identifier::Word(text.to_owned()))
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_like_blang_semver() {
        let ascending = [
            "0.0.0",
            "1.0.0-1",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta",
            "1.0.0-rc.1",
            "1.0.0-rc.10",
            "1.0.0",
            "1.0.1",
            "1.10.0",
        ];
        let versions: Vec<_> = ascending.iter().map(|text| SemanticVersion::parse(text).unwrap()).collect();
        assert!(versions.is_sorted_by(|a, b| a < b));
        for text in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "v1.2.3", "1.2.x"] {
            assert!(SemanticVersion::parse(text).is_err(), "{text}");
        }
        assert_eq!(SemanticVersion::parse("1.2.3+build.1"), SemanticVersion::parse("1.2.3"));
        assert_eq!(SemanticVersion::parse("0.0.0").unwrap(), SemanticVersion::default());
    }

    #[test]
    fn parses_tolerantly_like_blang_semver() {
        for (text, want) in
            [("v1.2", Some("1.2.0")), ("1", Some("1.0.0")), ("01.002.3-a", Some("1.2.3-a")), ("1.x", None)]
        {
            let read = SemanticVersion::parse_tolerant(text).ok();
            assert_eq!(read.as_ref().map(ToString::to_string).as_deref(), want, "{text}");
        }
        for text in ["", "a", "1.2.3.4", "1.2-a"] {
            assert!(SemanticVersion::parse_tolerant(text).is_err(), "{text}");
        }
    }
}
