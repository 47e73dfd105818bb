//! Patterns with their errors and sizes.

use super::*;

#[test]
fn accepts_go_syntax() {
    for pattern in [
        "",
        "a",
        "^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "(?i)a|b*",
        "(?:a)+?",
        "(?P<n>a)(?<m>b)",
        "a{2}b{1,}c{0,5}",
        "a{,2}",
        "{",
        "x{2",
        r"\d\D\pL\p{Greek}\P{^Lu}\p{old italic}\p{letter}",
        r"[[:alpha:]\d\-a-]",
        r"[]a]",
        r"[^]a]",
        r"\x41\x{1F600}\012\Qa*b\E*",
        r"\Aa\b\z",
        "(|a)*",
        "(a{10}){100}",
        "^*",
        "(?i-s:a)",
        "a(?i)*",
    ] {
        assert_eq!(check(pattern), Ok(()), "{pattern}");
    }
}

#[test]
fn errors_match_go() {
    for (pattern, want) in [
        ("([", "missing closing ]: `[`"),
        ("^(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a+?*", "invalid nested repetition operator: `+?*`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(+?)", "missing argument to repetition operator: `+?`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("(abc", "missing closing ): `(abc`"),
        ("a)", "unexpected ): `a)`"),
        ("x[a-z", "missing closing ]: `[a-z`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{foo}", "invalid character class range: `\\p{foo}`"),
        (r"abc\", "trailing backslash at end of expression: ``"),
        (r"\8", "invalid escape sequence: `\\8`"),
        (r"\1", "invalid escape sequence: `\\1`"),
        (r"\C", "invalid escape sequence: `\\C`"),
        (r"\x", "invalid escape sequence: `\\x`"),
        (r"\xZZ", "invalid escape sequence: `\\xZZ`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(?P<a b>x)", "invalid named capture: `(?P<a b>`"),
        ("(?P<a", "invalid named capture: `(?P<a`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
    ] {
        assert_eq!(check(pattern), Err(format!("error parsing regexp: {want}")), "{pattern}");
    }
}

#[test]
fn enforces_the_limits_of_go() {
    let nested = |depth: usize| "(".repeat(depth) + "a" + &")".repeat(depth);
    assert_eq!(check(&nested(999)), Ok(()));
    let deep = nested(1000);
    assert_eq!(check(&deep), Err(format!("error parsing regexp: expression nests too deeply: `{deep}`")));
    // Non-capturing groups do not count as a level.
    assert_eq!(check(&format!("{}a{}", "(?:".repeat(5000), ")".repeat(5000))), Ok(()));
    let stars = "(?:".repeat(1000) + "a" + &"*b)".repeat(1000);
    assert_eq!(check(&stars), Err(format!("error parsing regexp: expression nests too deeply: `{stars}`")));
    assert_eq!(
        check(&"(".repeat(5000)),
        Err(format!("error parsing regexp: missing closing ): `{}`", "(".repeat(5000)))
    );
    assert_eq!(check(&"[a-z]{1000}".repeat(3300)), Ok(()));
    let large = "[a-z]{1000}".repeat(3400);
    assert_eq!(check(&large), Err(format!("error parsing regexp: expression too large: `{large}`")));
}

#[test]
fn computes_program_sizes() {
    for (pattern, size) in
        [("", 3), ("abc", 5), ("a*", 5), ("a+|b", 6), ("(a)", 5), ("a{3}", 5), ("a{2,5}", 10), ("a{2,}", 5)]
    {
        assert_eq!(parse(pattern).map(|tree| tree.size), Ok(size), "{pattern}");
    }
}

#[test]
fn charges_parsing() {
    use binnacle_work::{WorkBudget, WorkLimits};

    let budget = WorkBudget::new(WorkLimits::REQUEST);
    let pattern = r"\pL".repeat(50_000);
    assert_eq!(budget.enter(|| check(&pattern)), Ok(()));
    assert!(budget.steps() >= 4 * pattern.len() as u64 && budget.most_memory() >= pattern.len(), "{}", budget.steps());
    assert_eq!(budget.memory(), 0, "the tree is dropped");
    let pattern = "a".repeat(3 << 20);
    assert!(budget.enter(|| check(&pattern)).is_err_and(|error| error.contains("more memory")));
}
