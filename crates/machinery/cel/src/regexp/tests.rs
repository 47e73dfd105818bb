//! Expressions and their matches.

use binnacle_work::{WorkBudget, WorkLimits};

use super::*;

#[test]
fn matches_like_go() {
    for (pattern, text, matches) in [
        (r"^\d+$", "٣", false),
        (r"^\d{2}$", "12", true),
        (r"^[\w-]+$", "a-b_9", true),
        (r"^[^\W]$", "é", false),
        (r"a{,2}", "a{,2}", true),
        (r"^\Qa.b\E$", "a.b", true),
        (r"^\Qa.b\E$", "axb", false),
        (r"[a&&b]", "&", true),
        (r"[]a]", "]", true),
        (r"[[:alpha:]]", "q", true),
        (r"\x{41}\101", "AA", true),
        (r"\bfoo\b", "a foo b", true),
        (r"\bfoo\b", "afoo b", false),
        (r"\Boo\b", "foo", true),
        (r"\bé", "é", false),
        (r"[a-z]{1,3}}", "abc}", true),
        (r"\pL", "é", true),
        ("", "", true),
        ("^$", "", true),
        ("^$", "\n", false),
        ("a$", "a\n", false),
        ("(?m)^b$", "a\nb\nc", true),
        ("(?m)a$", "xa\n", true),
        ("^b", "a\nb", false),
        (r"x\z", "x", true),
        (r"a\Ab", "ab", false),
        ("a.c", "a\nc", false),
        ("(?s)a.c", "a\nc", true),
        ("a[^b]c", "a\nc", true),
        ("(?i)straße", "STRAßE", true),
        ("(?i)k", "\u{212A}", true),
        ("(?i:a)b", "AB", false),
        ("(?i:a)b", "Ab", true),
        ("a(?i)b|c", "aC", true),
        ("^(?:a|b(?i))c$", "aC", false),
        ("^(a|b)*?c{2,3}$", "abbacc", true),
        ("^(a|b)*c{2,3}$", "acccc", false),
        ("^a{3}$", "aaa", true),
        ("^a{3}$", "aaaa", false),
        ("^(?:a{2,}){2}$", "aaa", false),
        ("^(?:a{0}b)$", "b", true),
        ("(|a)*b", "aab", true),
        ("^(?:(?:a*)*)*$", "aaab", false),
        ("a|^b|c$", "xc", true),
        ("日本", "こ日本", true),
        (r"^[\x{10000}-\x{10FFFF}]+$", "😀😀", true),
        (r"\x{D800}", "\u{FFFD}", false),
    ] {
        assert_eq!(GoRegex::new(pattern).unwrap().is_match(text), Ok(matches), "{pattern} on {text}");
        assert_eq!(GoRegex::new(pattern).unwrap().find(text).unwrap().is_some(), matches, "{pattern} in {text}");
    }
    assert_eq!(is_match("a(b", "x").unwrap_err().to_string(), "error parsing regexp: missing closing ): `a(b`");
}

/// The results of Go's `FindAllString`.
#[test]
fn finds_the_same_matches_as_go() {
    for (pattern, text, want) in [
        ("a+", "baaac", &["aaa"][..]),
        ("a+?", "baaac", &["a", "a", "a"]),
        ("(?U)a+", "aa", &["a", "a"]),
        ("a*", "baac", &["", "aa", ""]),
        ("a*?", "aa", &["", "", ""]),
        ("", "é", &["", ""]),
        ("a|ab", "ab", &["a"]),
        ("ab|a", "ab", &["ab"]),
        ("(|a)*", "aa", &["", "", ""]),
        ("(|a)+", "aa", &["", "", ""]),
        ("(a|)*", "aa", &["aa"]),
        (r"\b", "a b", &["", "", "", ""]),
        ("^a", "aaa", &["a"]),
        ("b$", "abb", &["b"]),
        ("x", "abc", &[]),
        (r"\d{2,3}", "1 12 1234", &["12", "123"]),
        (".b", "éb日b", &["éb", "日b"]),
    ] {
        let regex = GoRegex::new(pattern).unwrap();
        assert_eq!(regex.find_all(text, usize::MAX).unwrap(), want, "{pattern} in {text}");
        assert_eq!(regex.find_all(text, 1).unwrap(), &want[..want.len().min(1)], "{pattern}");
        assert_eq!(regex.find(text).unwrap().map(|range| &text[range]), want.first().copied(), "{pattern}");
    }
}

/// The pattern of a public definition for host names.
const HOSTS: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";

#[test]
fn repeated_classes_compile_within_limits() {
    let host = r"^([a-z0-9\p{S}\p{L}](-?[a-z0-9\p{S}\p{L}]{0,62})?\.){1,8}[a-z\p{L}]{2,63}$";
    for (pattern, valid, invalid) in [
        (HOSTS, "a", "a..b"),
        (HOSTS, "www.exämple.com", "-a"),
        (HOSTS, "日本.例え", "*.example.com"),
        (host, "www.example.com", "www.example.c"),
    ] {
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        budget.enter(|| {
            let regex = GoRegex::new(pattern).unwrap();
            assert!(regex.memory() < 128 << 10, "{}", regex.memory());
            assert_eq!(regex.is_match(valid), Ok(true), "{valid}");
            assert_eq!(regex.is_match(invalid), Ok(false), "{invalid}");
        });
        assert!(budget.steps() < 1_000_000 && budget.memory() < 1 << 20, "{} {}", budget.steps(), budget.memory());
    }
}

#[test]
fn drops_states_over_the_memory_limit() {
    // The states are the positions of the last twenty characters.
    let regex = GoRegex::new("[ab]*a[ab]{20}c").unwrap();
    let mut state = 1_u64;
    let text: String = (0..100_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 60 & 1 == 1 { 'a' } else { 'b' }
        })
        .collect();
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    budget.enter(|| {
        assert_eq!(regex.is_match(&text), Ok(false));
        assert_eq!(regex.is_match(&(text.clone() + "a" + &"b".repeat(20) + "c")), Ok(true));
        assert_eq!(regex.is_match(&(text.clone() + "b" + &"b".repeat(20) + "c")), Ok(false));
    });
    let memory = regex.0.states.lock().unwrap().as_ref().map(|states| states.memory());
    assert!(memory.is_none_or(|bytes| bytes <= regex.memory()), "{memory:?}");
    // Each character creates a state of some twenty instructions.
    assert!((10_000_000..100_000_000).contains(&budget.steps()), "{}", budget.steps());
    let few = WorkBudget::new(WorkLimits { steps: 100_000, memory: 1 << 20 });
    assert_eq!(few.enter(|| regex.is_match(&text)), Err(BudgetError::Steps(100_000)));
    assert!(few.steps() < 200_000);
}

#[test]
fn charges_little_for_cached_states() {
    let regex = GoRegex::new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").unwrap();
    let name = "a-name-of-some-length".repeat(3);
    assert_eq!(regex.is_match(&name), Ok(true));
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    budget.enter(|| (0..1000).for_each(|_| assert_eq!(regex.is_match(&name), Ok(true))));
    assert!(budget.steps() < 30_000 && budget.memory() < 100_000, "{} {}", budget.steps(), budget.memory());
}

#[test]
fn charges_compilation() {
    let pattern = format!("^{}$", r"[\pL\d]{1000}".repeat(1000));
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    let regex = budget.enter(|| GoRegex::new(&pattern)).unwrap();
    assert!(budget.steps() > 1_000_000 && budget.memory() > 12_000_000, "{} {}", budget.steps(), budget.memory());
    assert!(regex.memory() > budget.memory());
    // A class is compiled once.
    assert_eq!(regex.0.program.sets.len(), 1);
    let few = WorkBudget::new(WorkLimits { steps: 100_000, memory: usize::MAX });
    assert!(few.enter(|| GoRegex::new(&pattern)).is_err_and(|error| error.is_cost_limit()));
    let few = WorkBudget::new(WorkLimits { steps: u64::MAX, memory: 1 << 20 });
    assert!(few.enter(|| GoRegex::new(&pattern)).is_err_and(|error| error.is_cost_limit()));
    let different: String = (0..3000_u32).map(|n| format!("[\\x{{{n:x}}}\\p{{L}}]")).collect();
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    let compiled = budget.enter(|| GoRegex::new(&different));
    assert!(budget.steps() > 5_000_000 && budget.memory() > 10_000_000, "{} {}", budget.steps(), budget.memory());
    assert!(compiled.is_ok());
}

#[test]
fn rejects_large_expressions() {
    assert!(GoRegex::new(r"((a{1000}){1000}){1000}").is_err());
    let large = r"\pL{1000}".repeat(4000);
    let error = GoRegex::new(&large).unwrap_err().to_string();
    assert!(error.starts_with("error parsing regexp: expression too large: `"), "{}", &error[..80]);
    assert!(GoRegex::new(&r"\pL{1000}".repeat(50)).is_ok());
}
