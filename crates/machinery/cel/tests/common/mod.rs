//! Expressions with their expected results.

use binnacle_cel::{Activation, Environment, PER_CALL_LIMIT, Val};

/// Returns the value of an expression as text, or its error: `error: ...` of the evaluation, `compile: ...` of the
/// compilation.
fn outcome(env: &Environment, activation: &Activation<'_>, expression: &str) -> String {
    let ast = match env.compile(expression) {
        Ok(ast) => ast,
        Err(errors) => return format!("compile: {}", errors.issues[0].message),
    };
    let program = match ast.program() {
        Ok(program) => program,
        Err(error) => return format!("program: {error}"),
    };
    match program.eval(activation, PER_CALL_LIMIT) {
        Ok(value @ Val::Message(_)) => format!("{:?}", value.to_tree()),
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

/// Fails with a list of all expressions with another result.
pub(crate) fn check(env: &Environment, activation: &Activation<'_>, cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(expression, want)| {
            let got = outcome(env, activation, expression);
            (got != *want).then(|| format!("{expression}\n  want {want}\n  got  {got}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
