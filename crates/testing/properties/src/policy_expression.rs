//! CEL expressions of admission policies.

use binnacle_admission_matching::expressions::{BUDGET, Budget, Compiler, Inputs, Scope};
use binnacle_schema::value;

use crate::work::bounded;

/// The input is an expression, with the expressions of variables on the lines before it. Every compiled expression has
/// a value or an error within its cost limit and the work budget, and the same one each time.
pub fn policy_expression(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        bounded(|| evaluated_twice(text));
    }
}

fn evaluated_twice(text: &str) {
    let mut lines: Vec<&str> = text.lines().collect();
    let Some(expression) = lines.pop() else { return };
    let mut compiler = Compiler::of_policy(true);
    for (at, line) in lines.into_iter().take(8).enumerate() {
        compiler.variable(&format!("v{at}"), line);
    }
    let expressions = [compiler.compile(expression, &[]), compiler.compile_mutation(expression, &[])];
    let variables = compiler.into_variables();
    let request = value!({"operation": "CREATE", "name": "n", "userInfo": {"username": "u", "groups": ["a", "b"]}});
    let object = value!({
        "metadata": {"name": "n", "labels": {"app": "x"}},
        "spec": {"replicas": 3, "ratio": 0.5, "list": [{"name": "a"}, {"name": "b"}], "on": true, "none": null},
    });
    let inputs = Inputs {
        request: &request,
        object: Some(&object),
        old_object: None,
        params: Some(&object),
        namespace: None,
        checks: None,
    };
    for expression in &expressions {
        let evaluate = || {
            let scope = Scope::new(&variables, &inputs);
            let value = scope.evaluate(expression, &mut Budget::new(BUDGET));
            value.map(|value| value.map(|value| value.to_tree().map_err(|error| error.to_string())))
        };
        let (first, second) = (evaluate(), evaluate());
        if binnacle_work::check().is_err() {
            return;
        }
        // NaN is not equal to itself.
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }
}
