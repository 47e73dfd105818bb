//! The work of expressions, which is charged to the work budget.

use binnacle_cel::{Activation, Environment, PER_CALL_LIMIT, Type, Val, Version};
use binnacle_schema::{Value, value};
use binnacle_work::{WorkBudget, WorkLimits};

/// A hundredth of a request.
const FEW: WorkLimits = WorkLimits { steps: 3_000_000, memory: 8 << 20 };
const LIMIT: &str = "the request needs more work than the server does for one request: the limit is 3000000 steps";
const MEMORY: &str = "the request needs more memory than the server uses for one request: the limit is 8388608 bytes";
const COST: &str = "operation cancelled: actual cost limit exceeded";

fn environment() -> Environment {
    Environment::new(Version::STORED).with_variable("self", Type::Dyn).with_bind()
}

/// Evaluates an expression with a value for `self`. Returns the result or error as text, and the budget.
fn run(expression: &str, object: &Value) -> (String, WorkBudget) {
    let env = environment();
    let budget = WorkBudget::new(FEW);
    let outcome = budget.enter(|| {
        let program = env.program(expression)?;
        let activation: Activation<'_> = env.activation().with(0, Val::of(object));
        program.eval(&activation, PER_CALL_LIMIT).map(|value| value.to_string()).map_err(|error| error.to_string())
    });
    (outcome.unwrap_or_else(|error| error), budget)
}

/// A value of 2^40 leaves, whose lists share their parts.
fn shared() -> String {
    format!("[0]{}", ".map(x,[x,x])".repeat(40))
}

#[test]
fn values_with_shared_parts_stay_within_the_budget() {
    let shared = shared();
    let mut wrong = Vec::new();
    for (expression, want) in [
        // The cost of the function is the cost of walking the value.
        (format!("{shared}.indexOf([]) == -1"), COST),
        (format!("{shared}.lastIndexOf([]) == -1"), COST),
        (format!("dyn({shared}).isSorted()"), COST),
        (shared.replace("[0]", "[[]]") + ".indexOf(dyn([0])) == -1", LIMIT),
        (shared.replace("[0]", "['a']") + ".indexOf(dyn([0])) == -1", LIMIT),
        (format!("{shared} == {shared}"), LIMIT),
        (format!("{shared} != {shared}"), LIMIT),
        (format!("{shared} in [{shared}]"), LIMIT),
        (format!("sets.contains({shared}, {shared})"), LIMIT),
        (format!("sets.equivalent({shared}, {shared})"), LIMIT),
        (format!("sets.intersects({shared}, {shared})"), LIMIT),
        (format!("({shared} + {shared}).distinct().size()"), LIMIT),
        (format!("'%s'.format([{shared}])"), MEMORY),
        (format!("{shared}.flatten(1000000)"), MEMORY),
        (shared.replace("[x,x]", "{'a': x, 'b': x}") + " == " + &shared.replace("[x,x]", "{'a': x, 'b': x}"), LIMIT),
        (shared.replace("[x,x]", "{'a': x, 'b': x}") + ".indexOf({}) == -1", LIMIT),
        (shared.replace("[x,x]", "x + x").replace("[0]", "[[1]]") + "[0].size()", "1099511627776"),
        (shared.replace("[x,x]", "x + x").replace("[0]", "[[1]]") + "[0].sum()", LIMIT),
        (shared.replace("[x,x]", "x + x").replace("[0]", "[[1]]") + "[0].reverse()", LIMIT),
        (shared.replace("[x,x]", "x + x").replace("[0]", "[[1]]") + "[0].sort()", LIMIT),
        (shared.replace("[x,x]", "x + x").replace("[0]", "[[1]]") + "[0].exists(x, x == 2)", LIMIT),
        (shared.replace("[x,x]", "x + x").replace("[0]", "['a']") + "[0].size()", MEMORY),
        (shared.replace("[x,x]", "x + x").replace("[0]", "[b'a']") + "[0].size()", MEMORY),
        (shared.replace("[x,x]", "[x,x].join(x)").replace("[0]", "['a']") + "[0].size()", MEMORY),
        (shared.replace("[x,x]", "x.replace('', x)").replace("[0]", "['a']") + "[0].size()", LIMIT),
        (shared.replace("[x,x]", "'%s%s'.format([x, x])").replace("[0]", "['a']") + "[0].size()", MEMORY),
    ] {
        let (outcome, _) = run(&expression, &Value::Null);
        if outcome != want {
            let shown = &expression[expression.len().saturating_sub(60)..];
            wrong.push(format!("...{shown}\n  want {want}\n  got  {outcome}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn truncates_messages_about_values_with_shared_parts() {
    let shared = shared();
    for expression in [
        format!("dyn({shared}).join(',')"),
        format!("optional.unwrap(dyn({shared}))"),
        format!("[?dyn({shared})]"),
        format!("{{?'a': dyn({shared})}}"),
    ] {
        let (outcome, budget) = run(&expression, &Value::Null);
        assert!(outcome.len() < 100_000 && budget.steps() < 1_000_000, "{} {expression}", outcome.len());
    }
}

/// Rules with a low cost but much work, each with a `self` of a few kilobytes.
#[test]
fn cheap_expressions_with_expensive_work_are_aborted() {
    let text = "a".repeat(100_000);
    let object = value!({"text": (text.as_str()), "list": (Value::List(vec![Value::from("x"); 1000]))});
    for expression in [
        // Comparisons of equal lists.
        "lists.range(300).all(a, lists.range(300).all(b, self.list == self.list))",
        // Keys are copied and hashed.
        "lists.range(100000).all(x, {self.text: 1}[self.text] == 1)",
        "lists.range(100000).all(x, !(self.text in {'a': 1}))",
        "lists.range(100000).all(x, !(self.text in ['a', 'b']))",
        "lists.range(100000).exists(x, {'a': 1}[self.text] == x)",
        // Each function parses its argument.
        "cel.bind(u, url('http://a/' + self.text), lists.range(100000).all(x, u.getHost() == 'a'))",
        // Sizes and prefixes.
        "lists.range(100000).all(x, self.text.size() > 0)",
        "lists.range(100000).all(x, !self.text.endsWith(self.text + 'b'))",
        // The operators themselves.
        &format!("lists.range(300000).all(x, {}true)", "true && ".repeat(1000)),
    ] {
        let (outcome, budget) = run(expression, &object);
        assert!([LIMIT, MEMORY, COST].contains(&outcome.as_str()), "{expression}: {outcome}");
        assert!(outcome != COST || budget.steps() < FEW.steps, "{expression}");
    }
}

#[test]
fn charges_patterns_by_compiled_size() {
    let patterns = |count: usize, text: &str| {
        Value::List((0..count).map(|n| Value::from(text.replace('N', &n.to_string()))).collect::<Vec<_>>())
    };
    let rule = "self.all(x, !'a'.matches(x))";
    // Each pattern is distinct, with about thirty instructions.
    let (outcome, budget) = run(rule, &patterns(4_000, r"\pL{30}N"));
    assert_eq!(outcome, "true");
    assert!(budget.steps() < 3_000_000, "{}", budget.steps());
    // The same size of programs of a thousand instructions.
    let (outcome, _) = run(rule, &patterns(12_000, r"\pL{999}N"));
    assert!([LIMIT, MEMORY].contains(&outcome.as_str()), "{outcome}");
    let (outcome, _) = run("self.all(x, 'a'.find(x) == '')", &patterns(12_000, r"\pL{999}N"));
    assert!([LIMIT, MEMORY].contains(&outcome.as_str()), "{outcome}");
    // A recently compiled pattern costs little.
    let (outcome, budget) = run(rule, &Value::List(vec![Value::from(r"\pL{999}"); 12_000]));
    assert_eq!(outcome, "true");
    assert!(budget.memory() < 1 << 20, "{}", budget.memory());
}

#[test]
fn compiles_literal_patterns_once() {
    let many = |count: usize, repeat: usize| vec![format!("''.matches('\\\\pL{{{repeat}}}')"); count].join("||");
    let (outcome, budget) = run(&many(2000, 30), &Value::Null);
    assert_eq!(outcome, "false");
    assert!(budget.steps() < 2_000_000, "{}", budget.steps());
    let different: Vec<String> = (0..2000).map(|n| format!("''.matches('\\\\pL{{1000}}{n}')")).collect();
    let (outcome, _) = run(&different.join("||"), &Value::Null);
    assert!([LIMIT, MEMORY].iter().any(|limit| outcome.contains(limit)), "{outcome}");
}

/// Values that are nested too deeply to be dropped.
#[test]
fn limits_the_nesting_of_values() {
    let nested = format!("{}dyn(x){}", "[".repeat(20), "]".repeat(20));
    let optional = format!("{}dyn(x){}", "optional.of(".repeat(20), ")".repeat(20));
    for (start, step, times, want) in [
        ("[0]", nested.as_str(), 100, "the value is nested too deeply"),
        ("[0]", optional.as_str(), 100, "the value is nested too deeply"),
        ("[0]", "{'a': {'a': dyn(x)}}", 120, "1"),
    ] {
        let expression = format!("{start}{}.size()", format!(".map(x, {step})").repeat(times));
        assert_eq!(run(&expression, &Value::Null).0, want, "{step}");
    }
    // Concatenated lists refer to their parts, up to a limit.
    let sums = format!(".map(x, x{})", " + [1]".repeat(90)).repeat(10);
    assert_eq!(run(&format!("[lists.range(65)]{sums}[0].size()"), &Value::Null).0, "965");
}

/// Real rules need a small fraction of the limits.
#[test]
fn ordinary_rules_cost_little() {
    let names: Vec<Value> = (0..1000).map(|n| value!({"name": (format!("name-{n}")), "port": n})).collect();
    let object = value!({"items": (Value::List(names))});
    for (expression, most) in [
        ("self.items.all(i, i.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))", 100_000),
        ("self.items.all(i, i.port >= 0 && i.port < 65536 && has(i.name) && size(i.name) < 63)", 100_000),
        ("self.items.map(i, i.name).isSorted() || self.items.exists_one(i, i.name == 'name-7')", 100_000),
        ("self.items.transformMapEntry(k, v, {v.name: v.port}).size() == 1000", 100_000),
        ("self.items.transformMap(k, v, v.port + 1).all(k, k >= 0)", 100_000),
        ("self.items.map(i, i.name).join(',').split(',').size() == 1000", 100_000),
    ] {
        let (outcome, budget) = run(expression, &object);
        assert_eq!(outcome, "true", "{expression}");
        assert!(
            budget.steps() < most && budget.memory() < 1 << 20,
            "{expression}: {} {}",
            budget.steps(),
            budget.memory()
        );
    }
}
