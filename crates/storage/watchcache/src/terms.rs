//! The terms of a selector, combined by key or field. The time to match an object is then proportional to the number of
//! its labels and fields, and not to the number of terms.

use binnacle_meta::{LabelSelector, Operator, Text};

use crate::attrs::Labels;

/// Selectors with at most this many requirements are matched one by one.
const FEW: usize = 8;

/// The label requirements of a selector that has many, combined by key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LabelTerms {
    /// Sorted by key.
    keys: Vec<KeyTerms>,
    /// The number of keys that an object must have.
    required: usize,
}

/// All requirements on one key, combined.
#[derive(Debug, PartialEq, Eq)]
struct KeyTerms {
    key: Text,
    /// Allowed values, sorted.
    one_of: Option<Vec<Text>>,
    /// Excluded values, sorted.
    none_of: Vec<Text>,
    above: Option<i64>,
    below: Option<i64>,
    exists: bool,
    absent: bool,
}

impl LabelTerms {
    /// Returns `None` if there are few requirements.
    pub(crate) fn of(selector: &LabelSelector) -> Option<Self> {
        let requirements = selector.requirements();
        if requirements.len() <= FEW {
            return None;
        }
        let mut keys: Vec<KeyTerms> = Vec::new();
        for requirement in requirements {
            if keys.last().is_none_or(|last| last.key != *requirement.key()) {
                keys.push(KeyTerms::new(requirement.key().clone()));
            }
            if let Some(terms) = keys.last_mut() {
                terms.add(requirement.operator(), requirement.values());
            }
        }
        keys.iter_mut().for_each(|terms| sort(&mut terms.none_of));
        let required = keys.iter().filter(|terms| terms.needs_label()).count();
        Some(Self { keys, required })
    }

    pub(crate) fn match_labels(&self, labels: Labels<'_>) -> bool {
        let mut found = 0;
        for (key, value) in labels {
            let Ok(at) = self.keys.binary_search_by(|terms| compare(&terms.key, key)) else { continue };
            let terms = &self.keys[at];
            if !terms.match_value(value) {
                return false;
            }
            found += usize::from(terms.needs_label());
        }
        found == self.required
    }
}

impl KeyTerms {
    fn new(key: Text) -> Self {
        Self { key, one_of: None, none_of: Vec::new(), above: None, below: None, exists: false, absent: false }
    }

    fn add(&mut self, operator: Operator, values: &[Text]) {
        let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
        match operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => match &mut self.one_of {
                None => self.one_of = Some(values.to_vec()),
                Some(one_of) => one_of.retain(|value| values.binary_search(value).is_ok()),
            },
            Operator::NotIn | Operator::NotEquals => self.none_of.extend_from_slice(values),
            Operator::Exists => self.exists = true,
            Operator::DoesNotExist => self.absent = true,
            // Requirements have valid bounds. For an invalid bound, no value would be above it.
            Operator::GreaterThan => {
                let bound = bound().unwrap_or(i64::MAX);
                self.above = Some(self.above.map_or(bound, |own| own.max(bound)));
            }
            Operator::LessThan => {
                let bound = bound().unwrap_or(i64::MIN);
                self.below = Some(self.below.map_or(bound, |own| own.min(bound)));
            }
        }
    }

    /// Returns true if objects without the label are not selected.
    fn needs_label(&self) -> bool {
        self.exists || self.one_of.is_some() || self.above.is_some() || self.below.is_some()
    }

    fn match_value(&self, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        !self.absent
            && self.one_of.as_ref().is_none_or(|one_of| has(one_of, value))
            && !has(&self.none_of, value)
            && self.above.is_none_or(|bound| number().is_some_and(|number| number > bound))
            && self.below.is_none_or(|bound| number().is_some_and(|number| number < bound))
    }
}

pub(crate) fn sort(values: &mut Vec<Text>) {
    values.sort_unstable();
    values.dedup();
    values.shrink_to_fit();
}

pub(crate) fn has(sorted: &[Text], value: &str) -> bool {
    sorted.binary_search_by(|own| compare(own, value)).is_ok()
}

fn compare(own: &str, other: &str) -> std::cmp::Ordering {
    #[cfg(test)]
    tests::COMPARED.set(tests::COMPARED.get() + 1);
    own.cmp(other)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::attrs::Meta;

    thread_local! {
        /// The number of strings that this thread has compared.
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// Combined terms select the same objects as single ones.
    #[test]
    fn combined_terms_match_like_single_ones() {
        let padding: String = (0..FEW).map(|n| format!(",pad{n}!=x")).collect();
        for text in [
            "a=1",
            "a=1,a=2",
            "a in (1,2),a in (2,3)",
            "a!=1,a!=2,a!=3",
            "a notin (1,2),a",
            "!a",
            "!a,b",
            "!a,a",
            "a>1,a>3",
            "a<5,a>2,a!=4",
            "b<2,a",
            "c",
            "a!=1,b!=x,c!=",
        ] {
            let selector = LabelSelector::parse(&format!("{text}{padding}")).unwrap();
            let terms = LabelTerms::of(&selector).unwrap();
            for labels in ["", "a=1", "a=2", "a=3,b=1", "a=4", "a=x", "b=x", "a=,b=", "c=,pad1=y", "a=3,pad2=x"] {
                let labels: Vec<(Text, Text)> =
                    labels.split(',').filter_map(|l| l.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
                let meta = Meta::new("ns/name", &labels, &[]);
                let want = selector.matches(|key| meta.label(key));
                assert_eq!(terms.match_labels(meta.labels()), want, "{text} of {labels:?}");
            }
        }
    }

    /// An object costs one lookup for each of its labels, and each lookup halves the remaining keys.
    #[test]
    fn comparisons_do_not_grow_with_terms() {
        let labels = ["a", "key0512", "key1023", "z"].map(|key| (Text::from(key), Text::from("v")));
        let meta = Meta::new("ns/name", &labels, &[]);
        for (text, most) in [
            ((0..1024).map(|n| format!("key{n:04}!=x")).collect::<Vec<_>>(), 12 + 2),
            ((0..1024).map(|n| format!("key0512!=x{n:04}")).collect(), 12),
            ((0..9).map(|n| format!("key{n:04}!=x")).collect(), 5),
        ] {
            let terms = LabelTerms::of(&LabelSelector::parse(&text.join(",")).unwrap()).unwrap();
            COMPARED.set(0);
            assert!(terms.match_labels(meta.labels()));
            assert!(COMPARED.get() <= most * labels.len(), "{} comparisons", COMPARED.get());
        }
        assert!(LabelSelector::parse(&vec!["a!=x"; 1025].join(",")).is_err(), "more are refused");
    }

    /// Memory and comparisons do not grow with the number of terms on one key.
    #[test]
    fn combines_terms_of_one_key() {
        let text = (0..1000).map(|n| format!("a!=v{n}")).collect::<Vec<_>>().join(",");
        let terms = LabelTerms::of(&LabelSelector::parse(&text).unwrap()).unwrap();
        assert_eq!((terms.keys.len(), terms.required, terms.keys[0].none_of.len()), (1, 0, 1000));
    }
}
