//! Semantic versions, as far as comparing them needs.

use std::cmp::Ordering;

/// `1.2.3-alpha.1`; what stands behind a `+` does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SemanticVersion {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
}

/// Numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl SemanticVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (text, build) = match text.split_once('+') {
            Some((text, build)) => (text, Some(build)),
            None => (text, None),
        };
        if build.is_some_and(|build| !build.split('.').all(is_word)) {
            return None;
        }
        let (numbers, prerelease) = match text.split_once('-') {
            Some((numbers, prerelease)) => (numbers, Some(prerelease)),
            None => (text, None),
        };
        let mut parts = numbers.split('.');
        let mut number = || parts.next().and_then(parse_number);
        let numbers = [number()?, number()?, number()?];
        if parts.next().is_some() {
            return None;
        }
        let identifier = |part: &str| {
            if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
                return parse_number(part).map(Identifier::Number);
            }
            is_word(part).then(|| Identifier::Word(part.to_owned()))
        };
        let prerelease = prerelease.into_iter().flat_map(|p| p.split('.')).map(identifier).collect::<Option<_>>()?;
        Some(Self { numbers, prerelease })
    }
}

impl Ord for SemanticVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.prerelease.cmp(&other.prerelease),
        })
    }
}

impl PartialOrd for SemanticVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn parse_number(text: &str) -> Option<u64> {
    let leading_zero = text.len() > 1 && text.starts_with('0');
    (text.bytes().all(|b| b.is_ascii_digit()) && !leading_zero).then(|| text.parse().ok())?
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let ascending = ["0.0.0", "1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.0.1", "1.10.0"];
        let versions: Vec<SemanticVersion> =
            ascending.iter().map(|text| SemanticVersion::parse(text).expect("valid")).collect();
        assert!(versions.is_sorted_by(|a, b| a < b));
        for text in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "v1.2.3", "1.2.x"] {
            assert_eq!(SemanticVersion::parse(text), None, "{text}");
        }
        assert_eq!(SemanticVersion::parse("1.2.3+build.1"), SemanticVersion::parse("1.2.3"));
    }
}
