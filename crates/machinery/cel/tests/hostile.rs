//! Expressions that try to exhaust the server.

use binnacle_cel::{Environment, PER_CALL_LIMIT, Type, Val, Version};
use binnacle_schema::value;
use binnacle_work::{WorkBudget, WorkLimits};

fn environment() -> Environment {
    Environment::new(Version::STORED)
        .with_variable("object", Type::Dyn)
        .with_object_construction()
        .with_json_patch()
        .with_bind()
}

/// A tenth of the limits of a request, so that unoptimized builds finish quickly.
const LIMITS: WorkLimits = WorkLimits { steps: 30_000_000, memory: 96 << 20 };

/// Compiles and evaluates an expression within a budget. Only termination matters, not the result.
fn run(expression: &str) -> Option<String> {
    let budget = WorkBudget::new(LIMITS);
    let outcome = budget.enter(|| run_in_budget(expression));
    let exceeded = budget.steps() > LIMITS.steps || budget.memory() > LIMITS.memory;
    assert!(!exceeded || budget.enter(binnacle_work::check).is_err(), "{expression}");
    outcome
}

fn run_in_budget(expression: &str) -> Option<String> {
    let env = environment();
    let ast = env.compile(expression).ok()?;
    ast.estimate_cost();
    let program = ast.program().ok()?;
    let object = value!({"spec": {"a": 1i64, "b": "text", "list": [1i64, 2i64, 3i64], "map": {"k": true}}});
    let activation = env.activation().with(0, Val::of(&object));
    let result = program.eval(&activation, PER_CALL_LIMIT);
    if let Ok(value) = &result {
        let _ = value.to_tree();
    }
    Some(match result {
        Ok(value) => value.type_name().to_string(),
        Err(error) => error.to_string(),
    })
}

#[test]
fn deep_and_long_expressions_are_bounded() {
    for expression in [
        "(".repeat(100_000),
        "[".repeat(50_000),
        "{'a':".repeat(20_000),
        "!".repeat(99_000) + "true",
        "-".repeat(99_000) + "1",
        "1+".repeat(49_000) + "1",
        "a.".repeat(49_000) + "a",
        "a[".repeat(49_000),
        "true||".repeat(16_000) + "true",
        "true&&".repeat(16_000) + "true",
        "1,".repeat(49_000),
        format!("[{}]", vec!["1"; 40_000].join(",")),
        format!("[{}]", vec!["[]"; 30_000].join(",")),
        "a ? ".repeat(20_000),
        "true ? 1 : ".repeat(9_000) + "1",
        "f(".repeat(30_000),
        "Object{a:".repeat(10_000),
        "'".repeat(99_999),
        "\\".repeat(99_999),
        "\u{1F600}".repeat(90_000),
    ] {
        run(&expression);
    }
    let nested = format!("{}1{}", "[".repeat(240), "]".repeat(240));
    assert_eq!(run(&nested).as_deref(), Some("list"));
    let sum = format!("{}1", "1+".repeat(240));
    assert_eq!(run(&sum).as_deref(), Some("int"));
    let nots = format!("{}true", "!".repeat(1000));
    assert_eq!(run(&nots).as_deref(), Some("bool"));
}

#[test]
fn exponentially_growing_values_are_bounded() {
    let doubled = |start: &str, step: &str, times: usize| {
        (0..times).fold(start.to_owned(), |all, i| format!("{all}.map(x{i}, {})", step.replace('x', &format!("x{i}"))))
    };
    for expression in [
        // Strings, lists and structures that double with every step.
        doubled("['ab']", "x + x", 60),
        doubled("[[1]]", "x + x", 60),
        doubled("[[1]]", "[x, x]", 60) + " == " + &doubled("[[1]]", "[x, x]", 60),
        doubled("[{'a': 1}]", "{'l': x, 'r': x}", 40),
        doubled("[1]", "{x: x}", 60),
        doubled("['a']", "x.replace('', x)", 40),
        doubled("['a']", "[x, x].join(x)", 40),
        doubled("[[1]]", "x + x", 40) + ".map(x, size(x))",
        doubled("[[1]]", "x + x", 40) + ".map(x, x.sum())",
        doubled("[[1]]", "x + x", 40) + ".map(x, x.distinct())",
        doubled("[[1]]", "x + x", 40) + ".map(x, '%s'.format([x]))",
        doubled("[[1]]", "[x, x]", 60) + ".map(x, x.flatten())",
        "lists.range(9223372036854775807)".to_owned(),
        "lists.range(1000000).map(x, lists.range(1000000)).size()".to_owned(),
        "lists.range(3000).all(x, lists.range(3000).all(y, lists.range(3000).all(z, z >= 0)))".to_owned(),
        "cel.bind(a, [1, 1], cel.bind(b, [a, a], cel.bind(c, [b, b], cel.bind(d, [c, c], [d, d, d] == [d, d, d]))))"
            .to_owned(),
        (0..40).fold("optional.of(1)".to_owned(), |all, i| format!("{all}.optMap(x{i}, x{i})")),
    ] {
        run(&expression);
    }
}

#[test]
fn pathological_regular_expressions_are_bounded() {
    for pattern in
        ["((a{1000}){1000}){1000}", "(a*)*b", "(x+x+)+y", "\\\\pL{1000}{1000}", "[\\\\s\\\\S]{1000}", "(?i)\\\\w{1000}"]
    {
        run(&format!("'{}'.matches('{pattern}')", "a".repeat(5_000)));
        run(&format!("lists.range(10000).all(x, 'a'.matches('{pattern}' + string(x)))"));
    }
}

/// Random sequences of the language's tokens.
#[test]
fn random_expressions_do_not_panic() {
    const WORDS: &[&str] = &[
        "object",
        "spec",
        ".",
        ".?",
        "[",
        "]",
        "[?",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "&&",
        "||",
        "in",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'a'",
        "r'\\d'",
        "true",
        "null",
        "x",
        "y",
        "has(",
        "all(x,",
        "exists(x,",
        "map(x,",
        "filter(x,",
        "size(",
        "matches(",
        "Object",
        "JSONPatch",
        "op",
        "`a`",
        "\n",
        " ",
        "//c\n",
        "\"",
        "'",
        "\\",
        "@",
        "é",
        "cel.bind(x,",
        "optional.of(",
        "transformMap(k, v,",
        "sortBy(x,",
        "quantity(",
        "duration(",
        "timestamp(",
        "format(",
        "dyn(",
        "int(",
        "string(",
        "type(",
    ];
    // A simple generator keeps the cases the same in every run.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let mut compiled = 0;
    for _ in 0..20_000 {
        let words: Vec<&str> = (0..=next(14)).map(|_| WORDS[next(WORDS.len())]).collect();
        let expression = words.join(if next(2) == 0 { "" } else { " " });
        let result = environment().compile(&expression);
        match result {
            Ok(_) => compiled += 1,
            Err(errors) => assert!(!errors.issues.is_empty() && !errors.to_string().is_empty(), "{expression}"),
        }
        run(&expression);
    }
    assert!(compiled > 50, "hardly anything compiled: {compiled}");
}
