//! Errors of expressions with invalid syntax.

use binnacle_cel::{Environment, Version};

fn check(expression: &str, want: &[&str]) {
    let env = Environment::new(Version::STORED);
    let errors = env.compile(expression).expect_err(expression);
    let got: Vec<String> = errors
        .issues
        .iter()
        .map(|issue| format!("{}:{}: {}", issue.location.line, issue.location.column + 1, issue.message))
        .collect();
    assert_eq!(got, want, "{expression}");
}

const EXPR: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

#[test]
fn syntax_errors_match_antlr() {
    let expecting = |before: &str| format!("{before} expecting {EXPR}");
    check("self.a >", &[&expecting("1:9: Syntax error: mismatched input '<EOF>'")]);
    check("!!", &[&expecting("1:3: Syntax error: extraneous input '<EOF>'")]);
    check("", &[&expecting("1:0: Syntax error: mismatched input '<EOF>'")]);
    check("a + * b", &[&expecting("1:5: Syntax error: extraneous input '*'")]);
    check("Object{spec:", &[&expecting("1:13: Syntax error: mismatched input '<EOF>'")]);
    check(
        "*@a | b",
        &[
            &expecting("1:1: Syntax error: extraneous input '*'"),
            "1:2: Syntax error: token recognition error at: '@'",
            "1:5: Syntax error: token recognition error at: '| '",
            "1:7: Syntax error: extraneous input 'b' expecting <EOF>",
        ],
    );
    check(
        "{",
        &[
            "1:2: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', \
           'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ],
    );
    check(
        "t{>C}",
        &[
            "1:3: Syntax error: extraneous input '>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}",
            "1:5: Syntax error: mismatched input '}' expecting ':'",
        ],
    );
    check("x{.", &["1:3: Syntax error: mismatched input '.' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"]);
    check("a.true", &["1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER"]);
    check("f(a", &["1:4: Syntax error: missing ')' at '<EOF>'"]);
    check("(a b)", &["1:4: Syntax error: extraneous input 'b' expecting ')'"]);
    check("a ? b", &["1:6: Syntax error: mismatched input '<EOF>' expecting ':'"]);
    check("a.b.", &["1:5: Syntax error: no viable alternative at input '.'"]);
    check(
        "a.?",
        &[
            "1:4: Syntax error: mismatched input '<EOF>' expecting {IDENTIFIER, ESC_IDENTIFIER}",
            "1:4: unsupported ident kind",
        ],
    );
    check("a.?.b", &["1:4: Syntax error: extraneous input '.' expecting {IDENTIFIER, ESC_IDENTIFIER}"]);
    check(
        "'a\\q'",
        &[
            "1:1: Syntax error: token recognition error at: ''a\\q'",
            "1:5: Syntax error: token recognition error at: '''",
            &expecting("1:6: Syntax error: mismatched input '<EOF>'"),
        ],
    );
    // A line break in a string appears unescaped in the message.
    check(
        "x.y('\nz')",
        &[
            "1:5: Syntax error: token recognition error at: ''\n'",
            "2:2: Syntax error: token recognition error at: '')'",
            "2:4: Syntax error: missing ')' at '<EOF>'",
        ],
    );
}

#[test]
fn rejects_reserved_identifiers_and_invalid_macro_arguments() {
    check("as", &["1:1: reserved identifier: as"]);
    check(
        "[1].map(var, var * var)",
        &[
            "1:9: reserved identifier: var",
            "1:9: argument is not an identifier",
            "1:14: reserved identifier: var",
            "1:20: reserved identifier: var",
        ],
    );
    check("1.all(2, 3)", &["1:7: argument must be a simple name"]);
    check("has(a)", &["1:5: invalid argument to has() macro"]);
    check("9223372036854775808", &["1:1: invalid int literal"]);
    check("'\\udead'", &["1:1: invalid unicode code point"]);
}

#[test]
fn enforces_parser_limits() {
    let nested = format!("{}1{}", "(".repeat(300), ")".repeat(300));
    check(&nested, &["-1:0: expression recursion limit exceeded: 250"]);
    check(&"(".repeat(10_000), &["-1:0: expression recursion limit exceeded: 250"]);
    check(&"[".repeat(10_000), &["-1:0: expression recursion limit exceeded: 250"]);
    check(&"1+".repeat(10_000), &["-1:0: max recursion depth exceeded"]);
    check(&format!("{}1", "1+".repeat(300)), &["-1:0: max recursion depth exceeded"]);
    check(&format!("a{}", ".b".repeat(300)), &["-1:0: max recursion depth exceeded"]);
    let long = "a".repeat(100_001);
    check(&long, &["-1:0: expression code point size exceeds limit: size: 100001, limit 100000"]);
}
