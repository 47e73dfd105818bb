//! Sets of characters, with Go's class names.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use binnacle_validation::go_regexp::{Class, ClassItem, NamedSet};
use binnacle_work::{BudgetError, allocate, charge};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange, HirKind};

/// A set of characters.
#[derive(Debug)]
pub(super) struct CharSet {
    /// A bit for each ASCII character.
    ascii: u128,
    /// All ranges, in order.
    ranges: Box<[ClassUnicodeRange]>,
}

/// The work of adding a range to a set, and of case-folding one, in steps.
const STEPS_PER_RANGE: u64 = 4;
const STEPS_PER_FOLDED_RANGE: u64 = 40;

impl CharSet {
    pub(super) fn contains(&self, c: char) -> bool {
        if c.is_ascii() {
            return self.ascii >> u32::from(c) & 1 == 1;
        }
        let after = self.ranges.partition_point(|range| range.start() <= c);
        after > 0 && self.ranges[after - 1].end() >= c
    }

    /// Returns the number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.ranges)
    }

    /// Returns the characters of a class. Sets with a name are shared.
    pub(super) fn of_class(class: &Class<'_>, items: &[ClassItem<'_>]) -> Result<Arc<Self>, BudgetError> {
        if let [ClassItem::Named { set, negated }] = items
            && !class.fold
        {
            return named_set(*set, *negated != class.negated);
        }
        let mut ranges: Vec<ClassUnicodeRange> = Vec::with_capacity(items.len());
        for item in items {
            let item = item_chars(*item, class.fold)?;
            allocate(size_of_val(item.ranges()))?;
            ranges.extend_from_slice(item.ranges());
        }
        charge(ranges.len() as u64 * STEPS_PER_RANGE)?;
        let mut all = ClassUnicode::new(ranges);
        if class.negated {
            all.negate();
        }
        Ok(Arc::new(Self::from(all)))
    }

    /// Returns a character and all that differ only in case.
    pub(super) fn of_char(c: char) -> Result<Arc<Self>, BudgetError> {
        charge(STEPS_PER_FOLDED_RANGE)?;
        let mut set = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
        set.case_fold_simple();
        Ok(Arc::new(Self::from(set)))
    }
}

impl From<ClassUnicode> for CharSet {
    fn from(class: ClassUnicode) -> Self {
        let mut ascii = 0;
        for range in class.ranges().iter().take_while(|range| range.start().is_ascii()) {
            for c in range.start()..=range.end().min('\x7f') {
                ascii |= 1 << u32::from(c);
            }
        }
        Self { ascii, ranges: class.ranges().into() }
    }
}

/// Returns the characters of an item of a class.
fn item_chars(item: ClassItem<'_>, fold: bool) -> Result<ClassUnicode, BudgetError> {
    let (mut set, negated) = match item {
        ClassItem::Range(low, high) => (range(low, high), false),
        ClassItem::Named { set, negated } => {
            let shared = named_set(set, false)?;
            charge(shared.ranges.len() as u64 * STEPS_PER_RANGE)?;
            allocate(size_of_val(&*shared.ranges))?;
            (ClassUnicode::new(shared.ranges.iter().copied()), negated)
        }
    };
    if fold {
        let wide = set.ranges().iter().map(|range| u64::from(range.end()) - u64::from(range.start())).sum::<u64>();
        charge(set.ranges().len() as u64 * STEPS_PER_FOLDED_RANGE + wide.min(10_000))?;
        set.case_fold_simple();
    }
    if negated {
        set.negate();
    }
    Ok(set)
}

/// Returns a range of code points without surrogates, which occur in no text.
fn range(low: u32, high: u32) -> ClassUnicode {
    let low = char::from_u32(low).unwrap_or('\u{E000}');
    let high = char::from_u32(high).unwrap_or('\u{D7FF}');
    if low > high { ClassUnicode::empty() } else { ClassUnicode::new([ClassUnicodeRange::new(low, high)]) }
}

/// Sets by their pattern in the syntax of the crate, and whether they are negated.
type ClassCache = HashMap<(String, bool), Arc<CharSet>>;

/// Returns a named set. There are a few hundred, so all are cached.
fn named_set(set: NamedSet<'_>, negated: bool) -> Result<Arc<CharSet>, BudgetError> {
    static CLASSES: LazyLock<Mutex<ClassCache>> = LazyLock::new(Mutex::default);
    let pattern = match set {
        NamedSet::Perl(b'd') => "[0-9]".to_owned(),
        NamedSet::Perl(b's') => r"[\t\n\f\r ]".to_owned(),
        NamedSet::Perl(_) => "[0-9A-Za-z_]".to_owned(),
        NamedSet::Posix(name) => format!("[[:{name}:]]"),
        NamedSet::Unicode(name) => {
            let name = name.chars().filter(|c| !matches!(c, ' ' | '-' | '_'));
            format!("\\p{{{}}}", name.collect::<String>().to_ascii_lowercase())
        }
    };
    let key = (pattern, negated);
    let cached = CLASSES.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(cached) = cached {
        return Ok(cached);
    }
    // Built once per process.
    charge(100_000)?;
    let mut class = match regex_syntax::parse(&key.0).map(|hir| hir.into_kind()) {
        Ok(HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => class,
        Ok(HirKind::Literal(literal)) => std::str::from_utf8(&literal.0).map_or_else(
            |_| ClassUnicode::empty(),
            |text| ClassUnicode::new(text.chars().map(|c| ClassUnicodeRange::new(c, c))),
        ),
        // Surrogates, and scripts that are newer than the tables.
        _ => ClassUnicode::empty(),
    };
    if negated {
        class.negate();
    }
    let set = Arc::new(CharSet::from(class));
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).insert(key, set.clone());
    Ok(set)
}

#[cfg(test)]
mod tests {
    use binnacle_validation::go_regexp::{Node, parse};

    use super::*;

    fn set(pattern: &str) -> Arc<CharSet> {
        let tree = parse(pattern).unwrap();
        assert!(matches!(tree.nodes[tree.root as usize], Node::Class(0)), "{pattern}");
        CharSet::of_class(&tree.classes[0], &tree.items).unwrap()
    }

    #[test]
    fn contains_the_characters_that_go_matches() {
        for (pattern, members, non_members) in [
            (r"\d", "09", "a٣"),
            (r"\W", "-é", "a_9"),
            (r"[^\W]", "a_9", "-é"),
            (r"\s", "\t\n\r \u{c}", "\u{b}\u{a0}"),
            (r"(?i)\w", "aſ\u{212A}", "-"),
            (r"(?i)[^a-c]", "dD", "aBC"),
            (r"(?i)\P{Lu}", "-1", "aA"),
            (r"\pL", "aéж", "1-"),
            (r"\P{^Greek}", "α", "a"),
            (r"\p{old italic}", "\u{10300}", "a"),
            (r"\p{Lt}", "ǅ", "a"),
            (r"\p{Zl}", "\u{2028}", " "),
            (r"[[:^alpha:]]", "1é", "a"),
            (r"[\x{D800}-\x{E001}]", "\u{E000}", "\u{D7FF}"),
            (r"[\x{D800}-\x{DFFF}]", "", "a"),
            (r"\p{Cs}", "", "a"),
            (".", "a\r", "\n"),
            ("(?s).", "a\n", ""),
            (r"[]&&~a-]", "]&~-a", "b"),
        ] {
            let set = set(pattern);
            assert!(members.chars().all(|c| set.contains(c)), "{pattern}");
            assert!(!non_members.chars().any(|c| set.contains(c)), "{pattern}");
        }
    }

    #[test]
    fn shares_named_sets() {
        assert!(Arc::ptr_eq(&set(r"\p{L}"), &set(r"[\pL]")));
        assert!(Arc::ptr_eq(&set(r"\PL"), &set(r"[^\pL]")));
    }
}
